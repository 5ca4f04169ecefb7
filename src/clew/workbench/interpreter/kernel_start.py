"""Preparation of a kernel before the first code runs. A script: kernels read it, nothing imports it."""


def _prepare_kernel() -> None:
    import os

    import zmq
    from ipykernel.kernelapp import IPKernelApp

    # The kernel asks every program for colours, which are noise in an output that is read here.
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR"):
        os.environ.pop(name, None)
    os.environ["TERM"] = "dumb"
    # Output that nobody has fetched yet makes the code wait; by default it would be lost without a word.
    thread = IPKernelApp.instance().iopub_thread
    thread.schedule(lambda: thread.socket.setsockopt(zmq.XPUB_NODROP, 1))


if __name__ == "__main__":
    _prepare_kernel()
    del _prepare_kernel
