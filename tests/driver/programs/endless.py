"""Does no streaming at all, and heeds nothing."""

import time

while True:
    time.sleep(0.1)
