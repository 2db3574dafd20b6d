"""greenlets on libev's loop, queues, a server, a thread pool, time-outs"""

import gevent
from gevent import event, pool, queue, server, socket, threadpool


def work(tell):
    results = queue.Queue()

    def worker(number):
        for i in range(20):
            gevent.sleep(0)
            results.put(number * 100 + i)
        return number

    jobs = [gevent.spawn(worker, i) for i in range(5)]
    gevent.joinall(jobs)
    tell("values", [job.value for job in jobs])
    tell("queue", sorted(results.get() for _ in range(100)))
    echo = server.StreamServer(("127.0.0.1", 0), lambda connection, address: connection.sendall(connection.recv(1000)[::-1]))
    echo.start()

    def client(i):
        with socket.create_connection(("127.0.0.1", echo.server_port)) as connection:
            connection.sendall(b"client %d" % i)
            return connection.recv(1000)

    tell("server", pool.Pool(5).map(client, range(30)))
    echo.stop()
    threads = threadpool.ThreadPool(3)
    tell("threads", threads.map(lambda n: sum(range(n)), range(1000, 1030)))
    threads.kill()
    try:
        with gevent.Timeout(0.05):
            event.Event().wait()
    except gevent.Timeout as error:
        tell("timeout", str(error))
    tell("loop", type(gevent.get_hub().loop).__module__)
