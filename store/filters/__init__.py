"""Which messages a subscription wants: tag expressions and SQL92."""
