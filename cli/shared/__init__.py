"""What several commands share: options, how values look, exit statuses."""
