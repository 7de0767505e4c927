"""Starts modules like ``python -m``, in forks of a process that has imported fairseq.

Half of a short command's time would go to imports. Neither the plugin nor any command is imported
here, and nothing has been computed, so a fork is what a new process is after its imports.

A line of standard input asks for one command, and its exit status is the answer::

    {"line": [MODULE, ...], "cwd": DIR, "streams": [FILE, FILE, FILE]}
"""

import atexit
import contextlib
import json
import logging
import os
import random
import runpy
import sys
import traceback
from typing import Any, Dict, NoReturn

import fairseq.checkpoint_utils
import fairseq.options
import fairseq.tasks
import fairseq.trainer  # noqa: F401
import numpy as np


def become(request: Dict[str, Any]) -> NoReturn:
    """Run the module of a request in this process, and end."""
    for number, (name, flags) in enumerate(
        zip(request["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))
    ):
        os.dup2(os.open(name, flags), number)
    os.chdir(request["cwd"])
    logging.root.handlers.clear()  # fairseq's imports have set one; the command sets its own
    random.seed()
    np.random.seed()
    module, *arguments = request["line"]
    sys.argv, sys.path[0] = [module, *arguments], request["cwd"]
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def serve() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    requests = os.fdopen(os.dup(0), "r")
    for line in requests:
        pid = os.fork()
        if pid == 0:
            become(json.loads(line))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(code, file=answers, flush=True)


if __name__ == "__main__":
    serve()
