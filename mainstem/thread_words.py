"""Places of the words by which a thread of a team and its callers tell each other what is to be done, and what is."""

from __future__ import annotations

LINE = 8  # words of 8 bytes in a cache line: words that different threads write lie that far apart

# Words of a thread that those write who send it runs.
STARTED = 0  # the last run that it is to do
COMPILED = 1  # the last one that is compiled code, and not Python's
FUNCTION, CONTEXT = 2, 3  # of that one: it is `invoke(function, context, 0, worker)`
AWAITED = LINE  # not 0: somebody sleeps until it has ended
# And those that it writes itself.
BEGUN = 2 * LINE  # the last run that it has begun
ENDED = 2 * LINE + 1  # the last one that it has ended
LOOKING = 2 * LINE + 2  # not 0: it is looking out for the next
THREAD_WORDS = 3 * LINE
