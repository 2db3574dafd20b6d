// Tensors without a copy, by DLPack, in C++17: a vector of the program's becomes an array of numpy, and the other way
// round. The argument is a virtual environment with numpy.

#include <hydrozoa.hpp>
#include <iostream>
#include <vector>

namespace {

int freed = 0;

// A tensor over a vector, which lives as long as Python uses it.
struct Matrix {
    std::vector<double> elements;
    std::vector<std::int64_t> shape;
    DLManagedTensor managed;

    static hydrozoa::DlpackTensor make(std::vector<double> elements, std::vector<std::int64_t> shape) {
        auto *matrix = new Matrix{std::move(elements), std::move(shape), {}};
        DLTensor &tensor = matrix->managed.dl_tensor;
        tensor.data = matrix->elements.data();
        tensor.device = {kDLCPU, 0};
        tensor.dtype = {kDLFloat, 64, 1};
        tensor.ndim = static_cast<int>(matrix->shape.size());
        tensor.shape = matrix->shape.data();
        matrix->managed.manager_ctx = matrix;
        matrix->managed.deleter = [](DLManagedTensor *self) {
            delete static_cast<Matrix *>(self->manager_ctx);
            freed++;
        };
        return hydrozoa::DlpackTensor(&matrix->managed);
    }
};

void run(const char *venv) {
    hydrozoa::Pool pool = hydrozoa::Builder().interpreters(2).venv(venv).build();
    hydrozoa::Session session = pool.acquire_on(0);
    hydrozoa::Object numpy = session.import("numpy");

    hydrozoa::Object array = session.object_from_dlpack(Matrix::make({1, 2, 3, 4, 5, 6}, {2, 3}));
    std::cout << array.call_method(session, "tolist").repr(session) << '\n';
    array.call_method(session, "__imul__", {2});
    hydrozoa::Object product = numpy.call_method(session, "matmul", {array, array.getattr(session, "T")});

    // Out again, and into another interpreter.
    hydrozoa::DlpackTensor out = product.to_dlpack(session);
    const auto *elements = static_cast<const double *>(out->dl_tensor.data);
    std::cout << "shape " << out->dl_tensor.shape[0] << " x " << out->dl_tensor.shape[1] << ", first "
              << elements[0] << '\n';
    hydrozoa::Session other = pool.acquire_on(1);
    other.import("numpy");
    hydrozoa::Object same = other.object_from_dlpack(std::move(out));
    std::cout << same.call_method(other, "sum").to_float(other) << '\n';

    try {
        array.call_method(session, "reshape", {4, 4});
    } catch (const hydrozoa::Error &error) {
        std::cout << error.status() << ' ' << error.what() << '\n';
    }
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 2) {
        std::cerr << "usage: tensor VENV\n";
        return 2;
    }
    try {
        run(arguments[1]);
    } catch (const hydrozoa::Error &error) {
        std::cerr << error.what() << '\n' << error.traceback();
        return 1;
    }
    std::cout << "freed " << freed << '\n';
    return 0;
}
