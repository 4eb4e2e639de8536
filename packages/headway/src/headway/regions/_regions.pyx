# cython: language_level=3, binding=True
"""The Python interface to ``headway.h``."""

import inspect
from functools import wraps

from .own_progress import Progress, States, StateTime

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int64_t, uint32_t, uint64_t
from posix.unistd cimport getpid

cdef extern from "headway.h":
    uint32_t headway_tag(const char *name) nogil
    uint32_t headway_poll_tag(const char *name) nogil
    uint32_t headway_state_tag(const char *name) nogil
    void headway_set_noneffective(uint32_t tag) nogil
    void headway_clear_noneffective() nogil
    uint32_t headway_task_name(const char *name) nogil
    void headway_named_task(uint64_t id, uint32_t name) nogil
    uint64_t headway_current_task() nogil
    uint32_t headway_current_task_name() nogil

    ctypedef struct headway_progress_t:
        uint64_t since, at, rpi, epi, kpi, iopi, ready, wait, other
    uint64_t HEADWAY_UNKNOWN
    int headway_progress(headway_progress_t *into) nogil

    ctypedef struct headway_state_time_t:
        int64_t time, count
        uint32_t state
    ctypedef struct headway_states_t:
        headway_progress_t progress
        uint32_t n, state
        headway_state_time_t *states
    ctypedef struct headway_thread_t:
        uint32_t tid, pid, state, running
        char *name
        headway_progress_t progress
    int headway_states(headway_states_t *into) nogil
    int headway_state_name(uint32_t state, char *into) nogil
    uint32_t headway_threads(uint32_t pid, headway_thread_t *into, uint32_t room) nogil
    int headway_thread_states(headway_thread_t *thread, headway_states_t *into) nogil
    int headway_thread_again(headway_thread_t *thread) nogil

cdef extern from *:
    """
    /* Without looking for an observer, for which Python's lock must be free: the observer may be in this process. */
    static inline int progress_if_known(headway_progress_t *into) {
        return headway_own_.at && headway_progress_read_(headway_own_.at, into, 0);
    }
    /* Another number for each observer that is mapped. */
    static inline uint32_t observer(void) { return headway_published_.generation; }
    static inline int states_if_known(headway_states_t *into) {
        return headway_own_.at && headway_progress_read_(headway_own_.at, &into->progress, into);
    }
    """
    int progress_if_known(headway_progress_t *into) nogil
    uint32_t observer() nogil
    int states_if_known(headway_states_t *into) nogil

cdef extern from "<sys/prctl.h>" nogil:
    int PR_SET_NAME
    int prctl(int option, ...)

cdef extern from "steps.h":
    object steps_make_type()

cdef extern from *:
    """
    #include "block_layout_checks.h" /* made by list_layout.py */
    """

cdef dict _tags = {}
"""The number of each tag of `set_noneffective` that has been looked up, by tag."""
cdef dict _states = {}
"""Likewise, of `set_state`."""


cdef bytes _encoded(object tag):
    if not isinstance(tag, str):
        if callable(tag):
            raise TypeError("a region takes a tag: write the decorator with brackets, @headway.noneffective('tag')")
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


cdef class state(_Region):
    """A region of this thread whose time is progress with a name: state ``user.TAG``. See `noneffective`.

    There is no room for more than 31 tags: regions of further ones change nothing, and their time is ``user``. Raises
    ValueError if the tag is empty.
    """

    def __cinit__(self, tag):
        self._tag = _state_tag(tag)
        self.tag = tag


cdef uint32_t _state_tag(object tag) except? 0xffffffff:
    cdef bytes name = _encoded(tag)
    if not name:
        raise ValueError("a state has a name: headway.state('render')")
    return headway_state_tag(name)


def set_noneffective(tag=""):
    """Begin a region ``noneffective.TAG`` of this thread, inside those in which it already is."""
    cdef object number = _tags.get(tag)
    if number is None:
        number = _tags[tag] = headway_tag(_encoded(tag))
    headway_set_noneffective(number)


def clear_noneffective():
    """End the innermost region of this thread. Without an open region, only observers notice the call."""
    headway_clear_noneffective()


def set_state(tag):
    """Begin a region ``user.TAG`` of this thread, inside those in which it already is."""
    cdef object number = _states.get(tag)
    if number is None:
        number = _states[tag] = _state_tag(tag)
    headway_set_noneffective(number)


def clear_state():
    """End the innermost region of this thread, as `clear_noneffective` does."""
    headway_clear_noneffective()


# ---- tasks ----

cdef dict _names = {}
"""The number of each name of tasks that has been looked up, by name."""


cdef uint32_t _number(str name) except? 0xffffffff:
    """Return the number of a name of tasks."""
    cdef object number = _names.get(name)
    if number is None:
        number = _names[name] = headway_task_name(name.partition("\0")[0].encode("utf-8", "surrogateescape"))
    return number


cdef uint64_t _id(object number) except? 0xffffffffffffffff:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 64:
        raise ValueError(f"the id of a task is a whole number from 0 to 2^64 - 1, not {number!r}")
    return number


cdef tuple _named(object task, object number):
    """Return the name's number and the id that the arguments of `task` mean."""
    if isinstance(task, str):
        return _number(task), _id(number)
    if callable(task):
        raise TypeError("a task is a name or an id: use it as a context manager, with headway.task(...)")
    if number:
        raise TypeError("a task without a name has one id: write headway.task('name', id)")
    return 0, _id(task)


cdef class task:
    """What this thread works on until the end of the block; then the task before goes on.

    ``task`` is a name, or the id of a task without a name. Tasks of one name are added up, whatever their ids. A name is
    cut to 63 bytes, and a process has room for 4,095. A task belongs to its thread: use it around what has no ``await``
    and no ``yield``, and `headway.asyncio` for coroutines.

    Raises TypeError and ValueError for what is no name and no id.
    """

    cdef uint32_t _name
    cdef uint64_t _task
    cdef list _before

    def __cinit__(self, object task, object id=0):
        self._name, self._task = _named(task, id)
        self._before = []

    @cython.binding(False)
    def __enter__(self):
        self._before.append((headway_current_task_name(), headway_current_task()))
        headway_named_task(self._task, self._name)
        return self

    @cython.binding(False)
    def __exit__(self, kind, value, trace):
        name, number = self._before.pop()
        headway_named_task(number, name)


def set_task(task, id=0):
    """This thread works on a task from now on: a name, or an id; see `task`."""
    name, number = _named(task, id)
    headway_named_task(number, name)


def clear_task():
    """This thread works on no task from now on."""
    headway_named_task(0, 0)


def current_task():
    """Return the id of this thread's task; 0: it has none."""
    return headway_current_task()


def numbered_task():
    """Return the number of the name of this thread's task (0: it has none), and its id."""
    return headway_current_task_name(), headway_current_task()


def set_numbered_task(number, id):
    """This thread works on the task from now on that `numbered_task` has told, or with a name of `task_number`."""
    headway_named_task(_id(id), number)


def task_number(name):
    """Return the number of a name of tasks, as `Steps` takes it; 0: it is empty, or there is no room for it."""
    return _number(name)


# ---- own progress ----

cdef object _new = tuple.__new__


cdef object _figure(uint64_t figure):
    return None if figure == HEADWAY_UNKNOWN else figure


def progress():
    """Return what this thread has made of its time since its measurement began: a `Progress`, or None.

    None: nobody measures this thread who tells it (``headway stat --publish``, ``headway.observe(publish=True)``). The
    thread is that of the system that runs the caller. The call makes no system call where the thread is measured. Where it
    is not, it looks for an observer once a second, which may take 40 ms.
    """
    cdef headway_progress_t found
    cdef int known = progress_if_known(&found)
    if not known:
        with nogil:
            known = headway_progress(&found)
    if not known:
        return None
    return _progress(&found)


cdef object _progress(const headway_progress_t *found):
    return _new(Progress, (
        found.rpi, _figure(found.epi), _figure(found.kpi), _figure(found.iopi), found.ready, found.wait, found.other,
        found.since, found.at,
    ))


cdef dict _state_names = {}
"""The names of states that were looked up, by number, of the observer that is mapped."""
cdef uint32_t _names_of = 0
"""Which one that is."""


cdef str _state_name(uint32_t state):
    global _names_of
    cdef char text[32]
    cdef object name
    if _names_of != observer():
        _state_names.clear()
        _names_of = observer()
    name = _state_names.get(state)
    if name is None:
        if not headway_state_name(state, text):
            return "unknown"
        name = _state_names[state] = (<bytes>text).decode("ascii", "replace")
    return name


cdef object _by_state(const headway_states_t *found):
    cdef dict times = {}
    cdef uint32_t i
    cdef str name
    for i in range(found.n):
        name = _state_name(found.states[i].state)
        here = _new(StateTime, (found.states[i].time, found.states[i].count))
        before = times.setdefault(name, here)
        if before is not here: # states that have no name of their own
            times[name] = _new(StateTime, (before[0] + here[0], before[1] + here[1]))
    return _new(States, (_progress(&found.progress), _state_name(found.state), times))


def states():
    """Return what this thread has made of its time, state by state: a `States`, or None where `progress` is None.

    The difference of two, ``after - before``, is what the thread did between the two moments. None, too: the observer is
    of a version that does not tell states.
    """
    cdef headway_states_t found
    cdef int known = states_if_known(&found)
    if not known:
        with nogil:
            known = headway_states(&found)
    return _by_state(&found) if known else None


cdef class Thread:
    """A thread that is measured by the same observer (`threads`), as it was when it was last read.

    A thread of another user is none of them, unless whoever measures has given that right. `read` reads it again.
    """

    cdef headway_thread_t _found

    @property
    def tid(self):
        """Its id in the pid namespace of this process."""
        return self._found.tid

    @property
    def pid(self):
        """Its process."""
        return self._found.pid

    @property
    def name(self):
        """Its name: 15 bytes at most."""
        return (<bytes>self._found.name).decode("utf-8", "backslashreplace")

    @property
    def state(self):
        """The name of the state that it was in."""
        return _state_name(self._found.state)

    @property
    def running(self):
        """Whether it had a processor."""
        return bool(self._found.running)

    @property
    def progress(self):
        """What it had made of its time: a `Progress`."""
        return _progress(&self._found.progress)

    def read(self):
        """Read it again. Returns its `Progress`; None: it has ended, and the figures stay as they are."""
        return _progress(&self._found.progress) if headway_thread_again(&self._found) else None

    def states(self):
        """Read it again, state by state. Returns a `States`; None: it has ended."""
        cdef headway_states_t found
        return _by_state(&found) if headway_thread_states(&self._found, &found) else None

    def __repr__(self):
        return f"<headway.Thread {self.tid} of {self.pid}, {self.name!r}, {self.state}>"


def threads(*, pid=None, tid=None, name=None):
    """Return the threads that this process may read, as `Thread` objects; none where nobody measures who tells them.

    ``pid``: of this process; by default this one, 0: of all. ``tid``: with this id, of any process. ``name``: of this
    name, with a final ``*``: whose names begin so.
    """
    cdef uint32_t of = 0 if tid is not None else getpid() if pid is None else pid
    cdef uint32_t n, i, room = 64
    cdef headway_thread_t *found = NULL
    cdef Thread thread
    cdef list all = []
    try:
        while True:
            found = <headway_thread_t *>PyMem_Realloc(found, room * sizeof(headway_thread_t))
            if found == NULL:
                raise MemoryError
            with nogil:
                n = headway_threads(of, found, room)
            if n <= room:
                break
            room = n + n // 8
        for i in range(n):
            thread = Thread.__new__(Thread)
            thread._found = found[i]
            if (tid is None or thread.tid == tid) and (name is None or _is_named(thread.name, name)):
                all.append(thread)
        return all
    finally:
        PyMem_Free(found)


cdef bint _is_named(str given, str wanted):
    return given.startswith(wanted[:-1]) if wanted.endswith("*") else given == wanted


Steps = steps_make_type()


def name_thread(name):
    """Give the kernel a name for the calling thread: its first 15 bytes."""
    cdef bytes text = name.partition("\0")[0].encode("utf-8", "surrogateescape")[:15]
    while text and text[len(text) - 1] & 0xc0 == 0x80 and not _is_whole(text):
        text = text[:len(text) - 1]
    if not _is_whole(text):
        text = text[:len(text) - 1]
    prctl(PR_SET_NAME, <const char *>text, 0, 0, 0)


cdef bint _is_whole(bytes text):
    """Return whether no character was cut."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason != "unexpected end of data"
    return True
