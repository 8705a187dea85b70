"""How the work of other libraries is timed."""

import time


def seconds(step):
    """The median of repeated runs, each of at least 20 ms."""
    step()
    step()
    begin = time.perf_counter()
    step()
    once = time.perf_counter() - begin
    count = max(1, int(0.02 / max(once, 1e-7)))
    times = []
    while len(times) < 5 or (len(times) < 50 and sum(times) * count < 0.5):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        times.append((time.perf_counter() - begin) / count)
    return sorted(times)[len(times) // 2]
