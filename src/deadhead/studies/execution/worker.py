"""A process that runs trials for a study: one JSON line in is a trial, one JSON line out its record.

It lives no longer than the process that started it, whichever way that ends: its input closes then.
Run as `python -m deadhead.studies.execution.worker FOLDER MODULE:FUNCTION SECONDS`: so often it gives a sign of life.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from deadhead.studies.store.folder import DiskFull, GpuLost, StudyError
from deadhead.studies.trial import Trial

from .jobs import function


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who hands out the trials
    _end_with_parent()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not run into our answers
    folder, work = Path(sys.argv[1]), function(sys.argv[2])
    lock = threading.Lock()

    def say(message: dict[str, Any]) -> None:
        with lock:
            out.write(json.dumps(message, ensure_ascii=False) + "\n")
            out.flush()

    threading.Thread(
        target=_live, args=(lambda: say({"beat": 1}), float(sys.argv[3])), daemon=True
    ).start()
    inbox: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
    while True:
        job = json.loads(inbox.get())
        say({"beat": 1})  # from here on the time of the trial counts
        try:
            record = work(
                Trial(job["trial"]),
                folder,
                frozenset(job["keep"]),
                lambda text: say({"note": text}),
            )
        except GpuLost as problem:
            traceback.print_exc()
            say({"lost": [problem.message, problem.hint]})
            os._exit(1)  # whatever came next would fail here; a new process may reach the GPU
        except StudyError as problem:
            say({"study": [problem.message, problem.hint, isinstance(problem, DiskFull)]})
        else:
            say({"record": json.loads(record.to_json())})


def _live(beat: Callable[[], None], every: float) -> None:
    """Give a sign of life now and then, whatever the trial does."""
    while True:
        time.sleep(every)
        beat()


def _listen(inbox: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        inbox.put(line)
    os._exit(0)  # whoever gave us work is gone, and with it anyone who would take the result


def _end_with_parent() -> None:
    """Ask Linux to end us with our parent even while we compute without a pause."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    main()
