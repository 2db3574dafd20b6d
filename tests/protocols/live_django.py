"""Django's own tests of a live server, whose requests the server serves by WSGI."""

import os
import sys
import tempfile
import threading
import unittest

import driver

LABELS = ["servers", "staticfiles_tests.test_liveserver", "file_storage.tests.FileLikeObjectTestCase"]


def run():
    # As the main part of runtests.py does.
    os.environ.update(DJANGO_SETTINGS_MODULE="test_sqlite", RUNNING_DJANGOS_TEST_SUITE="true")
    os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp()
    os.chdir("tests")
    sys.path.insert(0, os.getcwd())
    import runtests
    from django.test import testcases

    class Thread(threading.Thread):
        """In place of Django's own server: it hands its application to this server."""

        def __init__(self, host, static_handler, connections_override=None, port=0):
            super().__init__()
            self.host, self.port = host, driver.PORT
            self.static_handler = static_handler
            self.connections_override = connections_override
            self.is_ready = threading.Event()
            self.error = None
            self.over = threading.Event()

        def run(self):
            try:
                handler = self.static_handler(testcases._MediaFilesHandler(testcases.WSGIHandler()))
                driver.applications[driver.ONLY] = driver.Slot(self.within(handler))
            except Exception as error:
                self.error = error
            self.is_ready.set()
            self.over.wait()

        def within(self, handler):
            def application(environ, start_response):
                for alias, connection in (self.connections_override or {}).items():
                    testcases.connections[alias] = connection
                return handler(environ, start_response)

            return application

        def terminate(self):
            driver.applications.pop(driver.ONLY, None)
            self.over.set()
            self.join()

    testcases.LiveServerThread = Thread
    testcases.LiveServerTestCase.server_thread_class = Thread
    found = {}

    class Result(unittest.TextTestResult):
        def record(self, test, outcome):
            found[test.id()] = outcome

        def addSuccess(self, test):
            super().addSuccess(test)
            found.setdefault(test.id(), "passed")

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            self.record(test, "skipped")

        def addFailure(self, test, error):
            super().addFailure(test, error)
            self.record(test, f"failed: {error[1]}")

        def addError(self, test, error):
            super().addError(test, error)
            self.record(test, f"failed: {error[0].__name__}: {error[1]}")

        def addSubTest(self, test, subtest, error):
            super().addSubTest(test, subtest, error)
            if error is not None:
                self.record(test, f"failed: {error[1]}")

    import django.test.runner

    # Signals are for a process's first thread.
    unittest.installHandler = unittest.removeHandler = lambda: None
    django.test.runner.DiscoverRunner.get_resultclass = lambda self: Result
    runtests.django_tests(
        verbosity=1, interactive=False, failfast=False, keepdb=False, reverse=False, test_labels=LABELS, debug_sql=False,
        parallel=1, tags=None, exclude_tags=None, test_name_patterns=None, start_at=None, start_after=None, pdb=False,
        buffer=False, timing=False, shuffle=False,
    )
    return found
