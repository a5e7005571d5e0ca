"""The other end of `workers`: read a plan and frame numbers from standard input, answer with finished frames."""

import os
import pickle
import sys
import traceback
from typing import BinaryIO


def main() -> None:
    """Serve until standard input ends."""
    # answers go where standard output went; whatever is printed goes to standard error
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    try:
        serve(requests, answers)
    except (EOFError, BrokenPipeError):
        # nobody asks or listens any more
        os._exit(0)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer one frame number after the other, with a result or with what went wrong."""
    from weft.errors import WeftError
    from weft.finish.jobs import finish_frame

    plan = pickle.load(requests)
    while True:
        frame = pickle.load(requests)
        answer: object
        try:
            answer = tuple(finish_frame(plan, frame))
        except WeftError as error:
            answer = WeftError(str(error))
        except Exception:
            answer = RuntimeError(f"frame {frame} could not be finished:\n{traceback.format_exc()}")
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    main()
