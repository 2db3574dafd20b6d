/* An extension module that debuggers look at: a replica of it in each interpreter. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static long visits; /* one in each replica */

static PyObject *wait_here(PyObject *self, PyObject *argument)
{
    long copy = PyLong_AsLong(argument);
    printf("READY %d %ld %p\n", getpid(), syscall(SYS_gettid), (void *)wait_here);
    fflush(stdout);
    for (;;)
        pause(); /* waits */
}

static PyObject *meet_here(PyObject *self, PyObject *argument)
{
    long copy = PyLong_AsLong(argument);
    return PyLong_FromLong(copy); /* meets */
}

static PyObject *visit(PyObject *self, PyObject *argument)
{
    long copy = PyLong_AsLong(argument);
    visits += copy; /* visits */
    return PyLong_FromLong(visits);
}

static PyMethodDef methods[] = {
    {"wait_here", wait_here, METH_O, NULL},
    {"meet_here", meet_here, METH_O, NULL},
    {"visit", visit, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "frame", NULL, -1, methods};

PyMODINIT_FUNC PyInit_frame(void)
{
    return PyModule_Create(&definition);
}
