"""What the crash tests share."""

from support.faults import fault_build

__all__ = ["fault_build"]
