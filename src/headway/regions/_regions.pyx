# cython: language_level=3, binding=True
"""The Python interface to ``headway.h``."""

import inspect
from functools import wraps

cimport cython
from libc.stdint cimport uint32_t

cdef extern from "headway.h":
    uint32_t headway_tag(const char *name) nogil
    uint32_t headway_poll_tag(const char *name) nogil
    void headway_set_noneffective(uint32_t tag) nogil
    void headway_clear_noneffective() nogil

cdef extern from *:
    """
    #include "block_layout_checks.h" /* made by list_layout.py */
    """

cdef dict _tags = {}
"""The number of each tag that has been looked up, by tag."""


cdef bytes _encoded(object tag):
    if not isinstance(tag, str):
        if callable(tag):
            raise TypeError("a region takes a tag: write the decorator with brackets, @headway.noneffective()")
        raise TypeError(f"the tag of a region is a str, not {type(tag).__name__}")
    return tag.partition("\0")[0].encode("utf-8", "surrogateescape")


cdef class _Region:
    cdef uint32_t _tag
    cdef readonly str tag

    # Under the limited API a bound method call packs its arguments into a tuple, which takes 50 ns.
    @cython.binding(False)
    def __enter__(self):
        headway_set_noneffective(self._tag)
        return self

    @cython.binding(False)
    def __exit__(self, kind, value, trace):
        headway_clear_noneffective()

    def __call__(self, function):
        if isinstance(function, type) or not callable(function):
            raise TypeError(f"a region is a decorator of functions, not of {function!r}")
        for suspends, what in (
            (inspect.iscoroutinefunction, "a coroutine"),
            (inspect.isasyncgenfunction, "an asynchronous generator"),
            (inspect.isgeneratorfunction, "a generator"),
        ):
            if suspends(function) or suspends(getattr(function, "__call__", None)):
                raise TypeError(
                    f"{getattr(function, '__qualname__', function)} makes {what}, which other code of the thread "
                    "interrupts: use the region as a context manager inside, around what has no await and no yield"
                )
        return _wrapped(function, self._tag)


def _wrapped(function, uint32_t tag):
    @wraps(function)
    def within_region(*arguments, **named):
        headway_set_noneffective(tag)
        try:
            return function(*arguments, **named)
        finally:
            headway_clear_noneffective()

    return within_region


cdef class noneffective(_Region):
    """A region of this thread whose time is not progress: state ``noneffective.TAG``, or ``noneffective`` without a tag.

    It is a context manager, and a decorator of ordinary functions. It may be entered again while it is active, and by
    any thread: regions nest, and time is charged to the innermost. A region belongs to its thread, so it must be left
    before an ``await`` or a ``yield``.

    Characters of the tag that are not in ``[A-Za-z0-9_.-]`` become ``_``, and the state's name is cut to 31 characters.
    A process has room for 31 tags; the time of further tags is charged to ``noneffective.other``.

    Raises TypeError for a tag that is no str, for classes, and for functions whose calls can be suspended.
    """

    def __cinit__(self, tag=""):
        self._tag = headway_tag(_encoded(tag))
        self.tag = tag


cdef class poll(_Region):
    """A region of this thread in which it asks for something repeatedly: state ``poll.TAG``. See `noneffective`."""

    def __cinit__(self, tag=""):
        self._tag = headway_poll_tag(_encoded(tag))
        self.tag = tag


def set_noneffective(tag=""):
    """Begin a region ``noneffective.TAG`` of this thread, inside those in which it already is."""
    cdef object number = _tags.get(tag)
    if number is None:
        number = _tags[tag] = headway_tag(_encoded(tag))
    headway_set_noneffective(number)


def clear_noneffective():
    """End the innermost region of this thread. Without an open region, only observers notice the call."""
    headway_clear_noneffective()
