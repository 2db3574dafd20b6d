// A C++ extension as users of torch write them: a Python module, an operator library, a class known to TorchScript, and
// state in static variables.

#include <torch/extension.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace {

// Own static state: each interpreter that loads this file has its own.
std::atomic<int64_t> calls{0};

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int64_t count() { return ++calls; }

void refuse(const std::string& reason) { throw Refusal(reason); }

int64_t element(const std::vector<int64_t>& values, size_t index) { return values.at(index); }

// A C++ function that calls Python: what Python raises passes through C++ frames.
py::object through(const py::function& callback) {
  std::string guard = "a destructor that must run while the exception passes";
  return callback(guard.size());
}

// What Python raises is caught in C++ and told.
std::string caught(const py::function& callback) {
  try {
    callback();
  } catch (const py::error_already_set& error) {
    return std::string("caught ") + py::cast<std::string>(error.type().attr("__name__"));
  } catch (const std::exception& error) {
    return std::string("caught C++ ") + error.what();
  }
  return "nothing";
}

at::Tensor twice_plus(const at::Tensor& input, double addend) {
  TORCH_CHECK(input.is_floating_point(), "twice_plus wants floating point, not ", input.scalar_type());
  return input * 2 + addend;
}

// Operators of every calling convention: results in registers, in memory and by reference, arguments on the stack, symbolic
// integers, an inferred schema, a custom class. Each counts in the replica's own static state.
at::Tensor counted(const at::Tensor& x) { return x + ++calls; }

at::Tensor& counted_(at::Tensor& x) { return x.add_(++calls); }

void counted_elements(const at::Tensor& x) { calls += x.numel(); }

std::tuple<at::Tensor, int64_t> counted_pair(const at::Tensor& x, double factor) { return {x * factor, ++calls}; }

at::Tensor counted_symbolic(const at::Tensor& x, c10::SymInt n) { return x + n.guard_int(__FILE__, __LINE__) + ++calls; }

at::Tensor counted_inferred(const at::Tensor& x, int64_t n, bool b) { return b ? x + n + ++calls : x; }

at::Tensor counted_many(const at::Tensor& x, double a, double b, int64_t i, int64_t j, int64_t k, int64_t l, int64_t m, bool n, double c) {
  ++calls;
  return x + a + b + i + j + k + l + m + (n ? 1 : 0) + c;
}

template <class Function>
c10::TypedOperatorHandle<Function> typed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

at::Tensor counted_autograd(const at::Tensor& x) {
  at::AutoDispatchBelowADInplaceOrView below;
  return typed<at::Tensor(const at::Tensor&)>("hydrozoa_extension::counted").call(x) + 1000;
}

// The same operators called with arguments in registers, as C++ code calls them.
std::vector<double> call_typed(const at::Tensor& x) {
  std::vector<double> sums;
  auto sum = [&](const at::Tensor& tensor) { sums.push_back(tensor.sum().item<double>()); };
  sum(typed<at::Tensor(const at::Tensor&)>("hydrozoa_extension::counted").call(x));
  at::Tensor y = x.detach().clone();
  at::Tensor& same = typed<at::Tensor&(at::Tensor&)>("hydrozoa_extension::counted_").call(y);
  TORCH_CHECK(&same == &y);
  sum(y);
  typed<void(const at::Tensor&)>("hydrozoa_extension::counted_elements").call(x);
  auto pair = typed<std::tuple<at::Tensor, int64_t>(const at::Tensor&, double)>("hydrozoa_extension::counted_pair").call(x, 2.5);
  sum(std::get<0>(pair));
  sums.push_back(std::get<1>(pair));
  sum(typed<at::Tensor(const at::Tensor&, c10::SymInt)>("hydrozoa_extension::counted_symbolic").call(x, 3));
  sum(typed<at::Tensor(const at::Tensor&, double, double, int64_t, int64_t, int64_t, int64_t, int64_t, bool, double)>(
          "hydrozoa_extension::counted_many")
          .call(x, 0.5, 0.25, 1, 2, 3, 4, 5, true, 0.125));
  sum(typed<at::Tensor(const at::Tensor&, int64_t, bool)>("hydrozoa_extension::counted_inferred").call(x, 7, true));
  return sums;
}

struct Accumulator : torch::CustomClassHolder {
  explicit Accumulator(double start) : total(start) {}
  double add(double value) {
    if (value < 0) throw std::invalid_argument("only what is not negative");
    return total += value;
  }
  double total;
};

int64_t rounded(const c10::intrusive_ptr<Accumulator>& accumulator) { return std::llround(accumulator->total); }

}  // namespace

TORCH_LIBRARY(hydrozoa_extension, library) {
  library.def("twice_plus(Tensor input, float addend) -> Tensor");
  library.class_<Accumulator>("Accumulator")
      .def(torch::init<double>())
      .def("add", &Accumulator::add)
      .def_pickle(
          [](const c10::intrusive_ptr<Accumulator>& self) { return self->total; },
          [](double total) { return c10::make_intrusive<Accumulator>(total); });
  library.def("counted(Tensor x) -> Tensor");
  library.def("counted_(Tensor(a!) x) -> Tensor(a!)");
  library.def("counted_elements(Tensor x) -> ()");
  library.def("counted_pair(Tensor x, float factor) -> (Tensor, int)");
  library.def("counted_symbolic(Tensor x, SymInt n) -> Tensor");
  library.def(
      "counted_many(Tensor x, float a, float b, int i, int j, int k, int l, int m, bool n, float c) -> Tensor");
  library.def("counted_inferred", &counted_inferred);
  library.def("rounded(__torch__.torch.classes.hydrozoa_extension.Accumulator accumulator) -> int", &rounded);
}

TORCH_LIBRARY_IMPL(hydrozoa_extension, CPU, library) {
  library.impl("twice_plus", twice_plus);
  library.impl("counted", counted);
  library.impl("counted_", counted_);
  library.impl("counted_elements", counted_elements);
  library.impl("counted_pair", counted_pair);
  library.impl("counted_symbolic", counted_symbolic);
  library.impl("counted_many", counted_many);
}

TORCH_LIBRARY_IMPL(hydrozoa_extension, AutogradCPU, library) { library.impl("counted", counted_autograd); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::register_exception<Refusal>(module, "Refusal");
  module.def("count", &count);
  module.def("refuse", &refuse);
  module.def("element", &element);
  module.def("through", &through);
  module.def("caught", &caught);
  module.def("twice_plus", &twice_plus);
  module.def("calls", [] { return calls.load(); });
  module.def("call_typed", &call_typed);
}
