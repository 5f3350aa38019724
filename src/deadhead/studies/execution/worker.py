"""A process that runs trials for a study: reads a trial and writes its record as JSON lines.

It ends with the process that started it, however that ends: its input closes then. Run as
`python -m deadhead.studies.execution.worker FOLDER MODULE:FUNCTION SECONDS`, with the seconds
between two signs of life.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deadhead.studies.trial import Trial

from .jobs import answer


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with our answers
    folder, work = Path(sys.argv[1]), sys.argv[2]
    lock = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with lock:
            out.write(json.dumps(message, ensure_ascii=False) + "\n")
            out.flush()

    _in_thread(_beat, lambda: send({"beat": 1}), float(sys.argv[3]))
    inbox: queue.SimpleQueue[str] = queue.SimpleQueue()
    _in_thread(_listen, inbox)
    while True:
        job = json.loads(inbox.get())
        send({"beat": 1})  # from here on the time of the trial counts
        trial = Trial(job["trial"])
        send(answer(work, trial, folder, job["keep"], lambda text: send({"note": text})))


def _in_thread(function: Callable[..., None], *args: Any) -> None:
    threading.Thread(target=function, args=args, daemon=True).start()


def _beat(send: Callable[[], None], seconds: float) -> None:
    """Give a sign of life regularly, whatever the trial does."""
    while True:
        time.sleep(seconds)
        send()


def _listen(inbox: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        inbox.put(line)
    os._exit(0)  # the parent has ended, and nobody would take the result


if __name__ == "__main__":
    main()
