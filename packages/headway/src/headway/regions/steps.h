/*
 * The type Steps: a coroutine whose steps are a task of the thread that runs them.
 *
 * It is written in C because an event loop takes a step by the slot am_send (PyIter_Send in Python's C API), which a class
 * of Cython cannot have. With it, the end of a task is a result, not an exception. Only the stable ABI is used.
 */
#ifndef HEADWAY_STEPS_H
#define HEADWAY_STEPS_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#include "headway.h"

struct steps {
	PyObject_HEAD
	PyObject *coroutine, *weak_references;
	uint64_t task;
	uint32_t name;
};

/* What the thread worked on before a step. */
struct task_before {
	uint64_t task;
	uint32_t name;
};

static struct task_before steps_begin(const struct steps *s)
{
	struct task_before before = {headway_current_task(), headway_current_task_name()};
	headway_named_task(s->task, s->name);
	return before;
}

static void steps_end(struct task_before before)
{
	headway_named_task(before.task, before.name);
}

static PySendResult steps_am_send(PyObject *self, PyObject *value, PyObject **result)
{
	struct steps *s = (struct steps *)self;
	struct task_before before = steps_begin(s);
	PySendResult sent = PyIter_Send(s->coroutine, value, result);
	steps_end(before);
	return sent;
}

/* The method send, whose end is an exception. */
static PyObject *steps_send(PyObject *self, PyObject *value)
{
	PyObject *result = NULL, *stop;
	PySendResult sent = steps_am_send(self, value, &result);
	if (sent != PYGEN_RETURN)
		return result;
	stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, result, NULL);
	Py_DECREF(result);
	if (stop) {
		PyErr_SetObject(PyExc_StopIteration, stop);
		Py_DECREF(stop);
	}
	return NULL;
}

static PyObject *steps_next(PyObject *self)
{
	return steps_send(self, Py_None);
}

static PyObject *steps_itself(PyObject *self)
{
	Py_INCREF(self);
	return self;
}

static PyObject *steps_throw(PyObject *self, PyObject *arguments)
{
	struct steps *s = (struct steps *)self;
	PyObject *throwing = PyObject_GetAttrString(s->coroutine, "throw"), *result;
	struct task_before before;
	if (!throwing)
		return NULL;
	before = steps_begin(s);
	result = PyObject_CallObject(throwing, arguments);
	steps_end(before);
	Py_DECREF(throwing);
	return result;
}

static PyObject *steps_close(PyObject *self, PyObject *none)
{
	(void)none;
	return PyObject_CallMethod(((struct steps *)self)->coroutine, "close", NULL);
}

/* What Steps does not have is the coroutine's: cr_frame, __qualname__ and so on. */
static PyObject *steps_getattro(PyObject *self, PyObject *name)
{
	PyObject *found = PyObject_GenericGetAttr(self, name);
	if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
		return found;
	PyErr_Clear();
	return PyObject_GetAttr(((struct steps *)self)->coroutine, name);
}

static PyObject *steps_repr(PyObject *self)
{
	return PyObject_Repr(((struct steps *)self)->coroutine);
}

static PyObject *steps_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
	static char *names[] = {"coroutine", "id", "name", NULL};
	PyObject *coroutine, *id;
	unsigned long long task;
	unsigned int name;
	struct steps *s;
	if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOI:Steps", names, &coroutine, &id, &name))
		return NULL;
	task = PyLong_AsUnsignedLongLong(id);
	if (task == (unsigned long long)-1 && PyErr_Occurred())
		return NULL;
	s = (struct steps *)PyType_GenericAlloc(type, 0);
	if (!s)
		return NULL;
	Py_INCREF(coroutine);
	s->coroutine = coroutine;
	s->task = task;
	s->name = name;
	return (PyObject *)s;
}

static int steps_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct steps *)self)->coroutine);
	return 0;
}

static void steps_dealloc(PyObject *self)
{
	struct steps *s = (struct steps *)self;
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	PyObject_GC_UnTrack(self);
	if (s->weak_references)
		PyObject_ClearWeakRefs(self);
	Py_CLEAR(s->coroutine);
	release(self);
	Py_DECREF(type);
}

static PyMethodDef steps_methods[] = {
	{"send", steps_send, METH_O, "Go on with a value, as a coroutine does."},
	{"throw", steps_throw, METH_VARARGS, "Go on with an exception, as a coroutine does."},
	{"close", steps_close, METH_NOARGS, "End it, as a coroutine does."},
	{NULL, NULL, 0, NULL},
};

static PyMemberDef steps_members[] = {
	{"coroutine", T_OBJECT_EX, offsetof(struct steps, coroutine), READONLY, "The coroutine that takes the steps."},
	{"id", T_ULONGLONG, offsetof(struct steps, task), 0, "The id of the task, from the next step on."},
	{"name", T_UINT, offsetof(struct steps, name), 0, "The number of its name (`task_number`), likewise."},
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct steps, weak_references), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot steps_slots[] = {
	{Py_tp_doc,
		"Steps(coroutine, id, name)\n--\n\n"
		"A coroutine whose steps are a task: the thread works on it while a step runs, and on what it did before after "
		"that.\n\n``id`` and ``name`` (`task_number`) are as of `task`. What is asked of the coroutine is answered by it."},
	{Py_tp_new, steps_new},
	{Py_tp_dealloc, steps_dealloc},
	{Py_tp_traverse, steps_traverse},
	{Py_tp_getattro, steps_getattro},
	{Py_tp_repr, steps_repr},
	{Py_tp_iter, steps_itself},
	{Py_tp_iternext, steps_next},
	{Py_tp_methods, steps_methods},
	{Py_tp_members, steps_members},
	{Py_am_await, steps_itself},
	{Py_am_send, steps_am_send},
	{0, NULL},
};

static PyType_Spec steps_spec = {
	.name = "headway.regions.Steps",
	.basicsize = sizeof(struct steps),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.slots = steps_slots,
};

/* Returns the type; NULL with an exception: it cannot be made. */
static PyObject *steps_make_type(void)
{
	return PyType_FromSpec(&steps_spec);
}

#endif
