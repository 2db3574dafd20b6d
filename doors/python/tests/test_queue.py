"""Queues between the program and its interpreters."""

import gc
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import hydrozoa
import numpy
import queue_work
from hydrozoa import _memory
from test_memory import wait


class Queues(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.executor = hydrozoa.Executor(2)
        cls.addClassCleanup(cls.executor.shutdown)

    def setUp(self):
        self.queue = hydrozoa.create_queue()
        # An interpreter that nobody calls may keep what tests before were given.
        self.lent = set(_memory._lent)

    def call(self, function, *arguments):
        return self.executor.submit(function, *arguments).result(120)

    def test_objects_come_in_their_order_on_all_ways(self):
        objects = [1, "two", [3.0], {"four": (b"5", None)}, bytes(100_000)]
        for item in objects:
            self.queue.put(item)
        self.assertEqual([self.queue.get() for _ in objects], objects)
        self.call(queue_work.put, self.queue, *objects)
        self.assertEqual([self.queue.get() for _ in objects], objects)
        queue_work.put(self.queue, *objects)
        self.assertEqual([self.call(queue_work.get, self.queue) for _ in objects], objects)
        with hydrozoa.Interpreter() as other:
            self.call(queue_work.put, self.queue, *objects)
            self.assertEqual([other.call(queue_work.get, self.queue) for _ in objects], objects)

    def test_a_queue_is_the_same_everywhere(self):
        made = self.call(queue_work.make, 3)
        self.assertEqual((made.maxsize, made.qsize(), made.empty(), made.full()), (3, 0, True, False))
        self.assertEqual(self.call(queue_work.describe, made), (True, made.id, 3, True, hash(made), repr(made)))
        self.assertIs(self.call(queue_work.put, made, 1), made)
        self.assertIs(hydrozoa.Queue(made.id), made)
        self.assertEqual(made, hydrozoa.Queue(made.id))
        self.assertNotEqual(made, self.queue)
        self.assertNotEqual(made, made.id)
        self.assertEqual({made: 1}[hydrozoa.Queue(made.id)], 1)
        for make in (hydrozoa.create_queue, lambda size: self.call(queue_work.make, size)):
            self.assertEqual((make(-1).maxsize, make(1 << 80).maxsize), (0, sys.maxsize))
            self.assertRaises(TypeError, make, "1")

    def test_a_queue_goes_by_main_by_an_initializer_and_by_a_queue(self):
        with hydrozoa.Interpreter() as interpreter:
            interpreter.prepare_main(queue=self.queue)
            interpreter.exec("queue.put(queue.qsize())")
        self.assertEqual(self.queue.get(), 0)
        with hydrozoa.Executor(1, queue_work.keep, (self.queue,)) as executor:
            self.queue.put(None)
            self.assertEqual(executor.submit(queue_work.of_kept).result(), 1)
        self.queue.get()
        inner = hydrozoa.create_queue()
        inner.put("inside")
        self.queue.put(inner)
        del inner
        self.assertEqual(self.call(queue_work.get, self.queue).get(), "inside")

    def test_a_queue_lives_while_it_is_on_its_way_and_ends_with_its_last_user(self):
        made = self.executor.submit(queue_work.put, hydrozoa.create_queue(), 5).result()
        id = made.id
        self.assertEqual(made.get(), 5)
        del made
        gc.collect()

        def is_gone():
            self.call(os.getpid), self.call(gc.collect)
            try:
                hydrozoa.Queue(id)
            except hydrozoa.QueueNotFoundError:
                return True

        self.assertTrue(wait(is_gone))
        self.assertRaises(TypeError, hydrozoa.Queue, "1")
        for id in (-1, 0, 1 << 80):
            self.assertRaises(hydrozoa.QueueNotFoundError, hydrozoa.Queue, id)
            self.assertRaises(hydrozoa.QueueNotFoundError, self.call, hydrozoa.Queue, id)

    def test_arrays_are_not_copied_and_read_only_for_who_gets_them(self):
        array = numpy.arange(1000.0)
        self.queue.put(array)
        self.assertEqual(self.call(queue_work.get_address, self.queue), (array.ctypes.data, False, array.sum()))
        self.call(queue_work.put_array, self.queue, 1000)
        got, address = self.queue.get()
        self.assertEqual((got.ctypes.data, got.flags.writeable), (address, False))
        self.assertTrue(numpy.array_equal(got, array))
        self.queue.put(got)
        self.assertEqual(self.call(queue_work.get_address, self.queue), (address, False, array.sum()))
        with hydrozoa.Interpreter() as other:
            self.call(queue_work.put_array, self.queue, 1000)
            array, address = other.call(queue_work.get, self.queue)
            self.assertEqual(array.ctypes.data, address)
        self.assertEqual(array.sum(), 499500)

    def test_arrays_stay_when_their_interpreter_ends(self):
        with hydrozoa.Executor(1) as executor:
            executor.submit(queue_work.put_array, self.queue, 1 << 16).result()
            executor.submit(queue_work.put, self.queue, "last").result()
        del executor
        gc.collect()
        got, address = self.queue.get()
        self.assertEqual((got.ctypes.data, got.sum()), (address, sum(range(1 << 16))))
        self.assertEqual(self.queue.get(), "last")
        with hydrozoa.Executor(1) as executor:
            executor.submit(queue_work.put_array, self.queue, 1 << 16).result()
        self.assertEqual(self.call(queue_work.get, self.queue)[0].sum(), sum(range(1 << 16)))

    def test_memory_is_given_back_with_the_queue_and_by_who_has_got_it(self):
        self.assertTrue(wait(lambda: _memory._lent.keys() <= self.lent), _memory._lent)
        self.queue.put(numpy.ones(1000))
        self.assertEqual(len(_memory._lent), 1)
        self.queue.get()
        self.assertTrue(wait(lambda: _memory._lent.keys() <= self.lent), _memory._lent)
        for _ in range(10):
            self.queue.put(numpy.ones(1000))
        with self.assertRaises(hydrozoa.QueueFull):
            full = hydrozoa.create_queue(1)
            full.put(1)
            full.put(numpy.ones(1000), timeout=0.05)
        self.assertTrue(wait(lambda: len(_memory._lent) == 10), _memory._lent)
        self.queue = None
        gc.collect()
        self.assertTrue(wait(lambda: _memory._lent.keys() <= self.lent), _memory._lent)

    def test_a_queue_that_an_interpreter_keeps_ends_with_the_interpreter(self):
        self.queue.put(numpy.ones(1000))
        with hydrozoa.Executor(1) as executor:
            executor.submit(queue_work.keep, self.queue).result()
            id, self.queue = self.queue.id, None
            gc.collect()
            self.assertEqual(executor.submit(queue_work.of_kept).result(), 1)
            self.assertEqual(hydrozoa.Queue(id).qsize(), 1)
        gc.collect()
        self.assertTrue(wait(lambda: _memory._lent.keys() <= self.lent), _memory._lent)
        self.assertRaises(hydrozoa.QueueNotFoundError, hydrozoa.Queue, id)

    def test_times_and_room_are_as_those_of_the_module_queue(self):
        small = hydrozoa.create_queue(2)
        self.assertRaises(queue.Empty, small.get_nowait)
        self.assertRaises(hydrozoa.QueueEmpty, small.get, timeout=0.05)
        self.assertRaises(ValueError, small.get, timeout=-1)
        self.assertRaises(ValueError, small.put, 1, timeout=-1)
        small.put(1)
        small.put_nowait(2)
        self.assertTrue(small.full())
        self.assertRaises(queue.Full, small.put_nowait, 3)
        self.assertRaises(hydrozoa.QueueFull, small.put, 3, timeout=0.05)
        self.assertEqual((small.get(), small.get(block=False)), (1, 2))
        self.assertIsInstance(self.call(queue_work.get_caught, small), hydrozoa.QueueEmpty)
        with self.assertRaises(hydrozoa.QueueEmpty):
            self.call(queue_work.get, small, 0.05)

    def test_who_waits_is_woken_on_both_sides(self):
        waiting = self.executor.submit(queue_work.get, self.queue)
        self.queue.put("woken")
        self.assertEqual(waiting.result(60), "woken")
        waiting = threading.Timer(0.1, self.executor.submit, (queue_work.put, self.queue, "called"))
        waiting.start()
        self.assertEqual(self.queue.get(timeout=60), "called")
        small = hydrozoa.create_queue(1)
        putting = self.executor.submit(queue_work.put, small, *range(100))
        self.assertEqual([small.get(timeout=60) for _ in range(100)], list(range(100)))
        putting.result(60)
        self.queue.put("thread")
        self.assertEqual(self.call(queue_work.get_in_a_thread, self.queue), ["thread"])

    def test_a_wait_holds_nobody_s_gil(self):
        with hydrozoa.Interpreter() as interpreter:
            waiting = interpreter.call_in_thread(queue_work.get, self.queue)
            self.assertEqual(interpreter.call(os.getpid), os.getpid())
            self.assertEqual(self.call(os.getpid), os.getpid())
            self.queue.put(1)
            waiting.join(60)
            self.assertFalse(waiting.is_alive())

    def test_a_wait_is_interrupted(self):
        full = hydrozoa.create_queue(1)
        full.put(1)
        with hydrozoa.Executor(1) as executor:
            # An interrupt of an import leaves modules in parts, as in any Python: they are imported before.
            executor.submit(queue_work.put, self.queue, numpy.ones(100)).result(120)
            self.assertEqual(executor.submit(queue_work.get, self.queue).result(120).sum(), 100)
            for function, *arguments in ((queue_work.get, self.queue), (queue_work.put, full, numpy.ones(100))):
                waiting = executor.submit(function, *arguments)
                while not executor.interrupt():
                    time.sleep(0.01)
                self.assertIsInstance(waiting.exception(60), KeyboardInterrupt)
            self.assertEqual(full.qsize(), 1)
            self.queue.put(2)
            self.assertEqual(executor.submit(queue_work.get, self.queue).result(120), 2)

    def test_an_interrupt_of_the_program_ends_its_wait(self):
        program = """
import _thread, signal, threading, hydrozoa
signal.signal(signal.SIGINT, signal.default_int_handler)  # none is set where the program was started with SIGINT ignored
threading.Timer(0.3, _thread.interrupt_main).start()
try:
    hydrozoa.create_queue().get()
except KeyboardInterrupt:
    print("interrupted")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout, done.returncode), ("interrupted\n", 0), done.stderr)

    def test_a_program_that_ends_while_others_wait_ends(self):
        program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})" + """
import threading, hydrozoa, queue_work
queue = hydrozoa.create_queue()
threading.Thread(target=queue.get, daemon=True).start()
interpreter = hydrozoa.Interpreter()
threading.Thread(target=interpreter.call, args=(queue_work.get, queue), daemon=True).start()
while not interpreter.is_running():
    pass
print("ends")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout, done.returncode), ("ends\n", 0), done.stderr)

    def test_an_interpreter_ends_while_its_threads_wait(self):
        id = self.queue.id
        for _ in range(5):
            with hydrozoa.Interpreter() as interpreter:
                interpreter.prepare_main(queue=self.queue)
                interpreter.exec("import threading; threading.Thread(target=queue.get, daemon=True).start()")
        self.queue = None
        gc.collect()

        def is_gone():
            try:
                hydrozoa.Queue(id)
            except hydrozoa.QueueNotFoundError:
                return True

        self.assertTrue(wait(is_gone))

    def test_an_executor_that_is_shut_down_waits_for_who_waits(self):
        executor = hydrozoa.Executor(1)
        waiting = executor.submit(queue_work.get, self.queue)
        threading.Timer(0.2, self.queue.put, ("late",)).start()
        executor.shutdown()
        self.assertEqual(waiting.result(0), "late")

    def test_many_produce_and_many_consume(self):
        with hydrozoa.Executor(3) as others:
            consumers = [pool.submit(queue_work.consume, self.queue) for pool in (others, others, self.executor)]
            producers = [pool.submit(queue_work.produce, self.queue, index, 2000) for index, pool in
                         enumerate((self.executor, others))]
            found = []
            own = threading.Thread(target=lambda: found.extend(queue_work.consume(self.queue)))
            own.start()
            queue_work.produce(self.queue, 2, 2000)
            for producer in producers:
                producer.result(120)
            self.queue.put(None)
            parts = [consumer.result(120) for consumer in consumers]
            own.join(120)
        for part in (*parts, found):
            for index in range(3):
                own = [number for name, number in part if name == index]
                self.assertEqual(own, sorted(own))
        self.assertEqual(sorted(sum(parts, found)), [(index, number) for index in range(3) for number in range(2000)])
        self.queue.get()

    def test_a_pipeline_of_small_queues_passes_everything_on(self):
        ways = [hydrozoa.create_queue(2) for _ in range(3)]
        stages = [self.executor.submit(queue_work.pass_on, ways[index], ways[index + 1], 300) for index in range(2)]
        feeding = threading.Thread(target=queue_work.put, args=(ways[0], *[numpy.full(100, n) for n in range(300)]))
        feeding.start()
        self.assertEqual([int(ways[2].get(timeout=60)[0]) for _ in range(300)], list(range(300)))
        feeding.join()
        for stage in stages:
            stage.result(60)

    def test_a_forked_child_is_told_that_the_queue_is_its_parent_s_and_makes_one_of_its_own(self):
        child = os.fork()
        if child == 0:
            done = 1
            try:
                try:
                    self.queue.put(1)
                except hydrozoa.QueueError as error:
                    own = hydrozoa.create_queue()
                    own.put("own")
                    done = 0 if "forked child" in str(error) and own.get() == "own" else 2
            finally:
                os._exit(done)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(self.queue.qsize(), 0)

    def test_an_object_that_cannot_be_pickled_is_refused_and_the_queue_goes_on(self):
        self.assertRaises(TypeError, self.queue.put, threading.Lock())
        self.queue.put(queue_work.Nowhere())
        self.queue.put(1)
        self.assertRaises(LookupError, self.queue.get)
        self.assertEqual(self.queue.get(), 1)

    def test_a_queue_does_not_go_to_another_process(self):
        program = "import hydrozoa, pickle, sys; pickle.load(sys.stdin.buffer)"
        for protocol in (2, 5):
            data = pickle.dumps(self.queue, protocol)
            self.assertIs(pickle.loads(data), self.queue)
            done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, timeout=60)
            self.assertIn(b"of another process", done.stderr)


if __name__ == "__main__":
    unittest.main()
