# cython: language_level=3, embedsignature=True
"""Keep libbpf's warnings. It says thousands of other things, and Python would be called with each of them."""

cdef extern from *:
    """
    #include <pthread.h>
    #include <stdarg.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>

    enum { MOST_WANTED = 1 }; /* LIBBPF_WARN is 0, LIBBPF_INFO 1, LIBBPF_DEBUG 2 */

    static pthread_mutex_t message_lock = PTHREAD_MUTEX_INITIALIZER;
    static char *messages;
    static size_t messages_size;

    /* libbpf_print_fn_t */
    static int keep_message(int level, const char *format, va_list arguments) {
        char *text;
        int size;
        if (level > MOST_WANTED)
            return 0;
        size = vasprintf(&text, format, arguments); /* the log of the verifier can have megabytes */
        if (size < 0)
            return 0;
        pthread_mutex_lock(&message_lock);
        char *more = realloc(messages, messages_size + size);
        if (more) {
            messages = more;
            memcpy(messages + messages_size, text, size);
            messages_size += size;
        }
        pthread_mutex_unlock(&message_lock);
        free(text);
        return 0;
    }

    static void take_messages(char **text, size_t *size) {
        pthread_mutex_lock(&message_lock);
        *text = messages;
        *size = messages_size;
        messages = NULL;
        messages_size = 0;
        pthread_mutex_unlock(&message_lock);
    }

    static uintptr_t message_keeper(void) { return (uintptr_t)keep_message; }
    """
    void take_messages(char **, size_t *) nogil
    size_t message_keeper() nogil
    void free(void *) nogil


def keeper():
    """Return the address of a function for libbpf_set_print."""
    return message_keeper()


def take():
    """Return what was kept since the last time."""
    cdef char *text = NULL
    cdef size_t size = 0
    take_messages(&text, &size)
    try:
        return text[:size].decode("utf-8", "replace") if size else ""
    finally:
        free(text)
