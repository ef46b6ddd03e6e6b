"""Functions that long-running work calls to tell others about itself: messages, faults and progress."""

from collections.abc import Callable

Tell = Callable[[str], None]
"""Called with a message for the operator."""
ReportFault = Callable[[str, Exception | None], None]
"""Called with a message, and with the fault behind it if there is one."""
Progress = Callable[[int, int], None]
"""Called now and then with how much of the work is done, and of how much: attempts, arrivals or percents."""
