"""Tensors: their memory is shared, and what cannot be shared goes as torch has it. Runs where torch is installed."""

import tempfile
import unittest

import hydrozoa
import queue_work
import torch
import torch.package
import work


class Tensors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.executor = hydrozoa.Executor(2)
        cls.addClassCleanup(cls.executor.shutdown)

    def call(self, function, *arguments):
        return self.executor.submit(function, *arguments).result()

    def test_a_tensor_s_memory_is_shared(self):
        tensor = torch.ones(1000)
        self.assertEqual(self.call(work.data_ptr, tensor), tensor.data_ptr())
        made, address = self.call(work.tensor, 1000)
        self.assertEqual((made.data_ptr(), made.sum().item()), (address, 1000.0))

    def test_tensors_of_all_layouts_come_back_as_they_went(self):
        square = torch.arange(10000.0).reshape(100, 100)
        for tensor in (
            square, square.t(), square[::2, 1:50:3], square[5], square[:0], torch.tensor(3.5), square > 50, square.to(torch.bfloat16),
            square.to(torch.complex64), square.to(torch.complex64).conj(), square.to_sparse(), torch.quantize_per_tensor(square, 0.1, 0, torch.quint8),
            torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3), False),
        ):
            back = self.call(work.same, tensor)
            self.assertEqual((type(back), back.dtype, back.shape, back.requires_grad),
                             (type(tensor), tensor.dtype, tensor.shape, tensor.requires_grad))
            self.assertTrue(torch.equal(back.to_dense() if back.is_sparse else back, tensor.to_dense() if tensor.is_sparse else tensor))

    def test_two_tensors_over_one_storage_have_their_values(self):
        whole = torch.arange(10.0)
        one, other = self.call(work.same, (whole[:5], whole[5:]))
        self.assertEqual((one.tolist(), other.tolist()), ([0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]))

    def test_a_model_infers_in_every_interpreter(self):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 3)).eval()
        rows = torch.randn(16, 20)
        expected = model(rows).detach()
        for output in self.executor.map(work.infer, [model] * 6, [rows] * 6):
            self.assertTrue(torch.equal(output, expected))

    def test_a_shared_model_has_its_weights_in_one_place(self):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 3)).eval()
        rows = torch.randn(16, 20)
        expected = model(rows).detach()
        with self.executor.share(model) as shared:
            self.assertTrue(torch.equal(shared(rows), expected))
            for output in self.executor.map(work.infer, [shared] * 6, [rows] * 6):
                self.assertTrue(torch.equal(output, expected))
            seen = set()
            while len(seen) < 2:
                seen.update(self.executor.map(queue_work.weights, [shared] * 4))
            self.assertEqual({place for _, place in seen}, {model[0].weight.data_ptr()})

    def test_tensors_go_by_queues_without_a_copy(self):
        queue, tensor = hydrozoa.create_queue(), torch.ones(1000)
        queue.put(tensor)
        self.assertEqual(self.call(queue_work.get, queue).data_ptr(), tensor.data_ptr())
        made, address = self.call(work.tensor, 1000)
        self.call(queue_work.put, queue, made)
        self.assertEqual(queue.get().data_ptr(), address)

    def test_a_package_of_torch_is_loaded(self):
        model = torch.nn.Linear(4, 2)
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/model.pt"
            with torch.package.PackageExporter(file) as exporter:
                exporter.extern("torch.**")
                exporter.save_pickle("model", "model.pkl", model)
                exporter.save_text("model", "words.txt", "some words")
                exporter.save_source_string("shapes", "import torch\n\ndef double(rows):\n    return rows * 2\n")
            package = self.executor.load_package(file)
        with package:
            rows = torch.ones(3, 4)
            loaded = package.load_pickle("model", "model.pkl")
            self.assertTrue(torch.equal(loaded(rows), model(rows)))
            for output in self.executor.map(loaded, [rows] * 4):
                self.assertTrue(torch.equal(output, model(rows)))
            self.assertEqual(package.load_text("model", "words.txt"), "some words")
            self.assertTrue(torch.equal(package.import_module("shapes").double(rows), rows * 2))


if __name__ == "__main__":
    unittest.main()
