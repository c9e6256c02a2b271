"""`silo bench`: the commands of the load-test harness."""
