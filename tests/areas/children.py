"""Functions for the areas' child processes. multiprocessing's `spawn` imports this module by name."""

import torch
import torch.distributed as dist


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.full((3,), float(index * index)), index


class Stream(torch.utils.data.IterableDataset):
    """Each worker yields its part."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(torch.tensor([number, number + 100]) for number in range(first, 12, step))


def perceptron():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) * (number + 1) / 4)
    return model


def collectives(rank, path):
    """One of two ranks. Returns the values it received."""
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    try:
        total = torch.arange(6.0) * (rank + 1)
        dist.all_reduce(total)
        parts = [torch.empty(2) for _ in range(2)]
        dist.all_gather(parts, torch.tensor([float(rank), 7.0]))
        objects = [None, None]
        dist.all_gather_object(objects, {"rank": rank})
        if rank == 0:
            dist.send(torch.full((4,), 3.5), 1)
            answer = torch.empty(4)
            dist.recv(answer, 1)
        else:
            answer = torch.empty(4)
            dist.recv(answer, 0)
            dist.send(answer * 2, 0)
        model = torch.nn.parallel.DistributedDataParallel(perceptron())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            inputs = torch.linspace(-1, 1, 32).reshape(4, 8) * (rank + 1) + step
            model(inputs).square().mean().backward()
            optimizer.step()
        trained = [parameter.detach().clone() for parameter in model.parameters()]
        dist.barrier()
        return [total, parts, objects, answer], trained
    finally:
        dist.destroy_process_group()


def other_rank(path):
    torch.set_num_threads(1)
    collectives(1, path)


def add_one(queue, tensor):
    torch.set_num_threads(1)
    tensor.add_(1)
    queue.put(tensor.sum().item())
