"""Reading queues: `Consumer`, its cursors, and messages as a consumer gets them."""
