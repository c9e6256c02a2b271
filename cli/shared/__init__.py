"""What several commands share: options, the form of values, exit statuses."""
