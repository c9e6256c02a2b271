"""What the crash tests share."""

from support.kill_points import fault_build

__all__ = ["fault_build"]
