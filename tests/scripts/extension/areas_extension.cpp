// A C++ extension as users of torch write them: a Python module, an operator library, a class known to TorchScript, and
// state in static variables.

#include <torch/extension.h>

#include <atomic>
#include <stdexcept>
#include <string>

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

struct Accumulator : torch::CustomClassHolder {
  explicit Accumulator(double start) : total(start) {}
  double add(double value) {
    if (value < 0) throw std::invalid_argument("only what is not negative");
    return total += value;
  }
  double total;
};

}  // namespace

TORCH_LIBRARY(hydrozoa_extension, library) {
  library.def("twice_plus(Tensor input, float addend) -> Tensor");
  library.class_<Accumulator>("Accumulator")
      .def(torch::init<double>())
      .def("add", &Accumulator::add)
      .def_pickle(
          [](const c10::intrusive_ptr<Accumulator>& self) { return self->total; },
          [](double total) { return c10::make_intrusive<Accumulator>(total); });
}

TORCH_LIBRARY_IMPL(hydrozoa_extension, CPU, library) { library.impl("twice_plus", twice_plus); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::register_exception<Refusal>(module, "Refusal");
  module.def("count", &count);
  module.def("refuse", &refuse);
  module.def("element", &element);
  module.def("through", &through);
  module.def("caught", &caught);
  module.def("twice_plus", &twice_plus);
}
