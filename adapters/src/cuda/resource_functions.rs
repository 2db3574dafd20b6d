//! The functions that give an interpreter device memory, streams and handles, and those that take them back.

use super::account::Kind;
use super::runtime::{Function, Word};
use std::ptr;

/// A function that gives something, and how to find the result.
#[derive(Debug)]
pub(super) struct Giver {
    pub(super) function: Function,
    pub(super) kind: Kind,
    /// The argument at whose address the result is.
    result: ResultPlace,
    pub(super) size: Size,
    pub(super) end: &'static Function,
    /// Whether it ends the capture of the stream that is its first argument.
    pub(super) ends_capture: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ResultPlace {
    /// Where this argument points to.
    Behind(usize),
    /// The first argument itself.
    Given,
}

/// How many bytes of device memory it takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Size {
    None,
    /// This argument.
    Argument(usize),
    /// Rows of width argument 2, argument 3 of them, each of the pitch that argument 1 points to afterwards.
    Pitched,
}

/// A function that takes something back.
#[derive(Debug)]
pub(super) struct Taker {
    pub(super) function: &'static Function,
    pub(super) kind: Kind,
}

pub(super) static FREE: Function = Function::new("cudaFree");
static FREE_ASYNC: Function = Function::new("cudaFreeAsync");
static FREE_ASYNC_PTSZ: Function = Function::new("cudaFreeAsync_ptsz");
static FREE_HOST: Function = Function::new("cudaFreeHost");
static UNREGISTER_HOST: Function = Function::new("cudaHostUnregister");
static DESTROY_STREAM: Function = Function::new("cudaStreamDestroy");
static DESTROY_EVENT: Function = Function::new("cudaEventDestroy");
static DESTROY_GRAPH: Function = Function::new("cudaGraphDestroy");
static DESTROY_EXEC: Function = Function::new("cudaGraphExecDestroy");
static DESTROY_POOL: Function = Function::new("cudaMemPoolDestroy");
static DESTROY_CUBLAS: Function = Function::new("cublasDestroy_v2");
static DESTROY_CUBLAS_LT: Function = Function::new("cublasLtDestroy");
static DESTROY_CUDNN: Function = Function::new("cudnnDestroy");
static DESTROY_CUSOLVER: Function = Function::new("cusolverDnDestroy");
static DESTROY_CUSPARSE: Function = Function::new("cusparseDestroy");

const fn giver(
    name: &'static str,
    kind: Kind,
    result: ResultPlace,
    size: Size,
    end: &'static Function,
) -> Giver {
    Giver { function: Function::new(name), kind, result, size, end, ends_capture: false }
}

const fn memory(name: &'static str, size: Size) -> Giver {
    giver(name, Kind::Memory, ResultPlace::Behind(0), size, &FREE)
}

const fn thing(name: &'static str, kind: Kind, end: &'static Function) -> Giver {
    giver(name, kind, ResultPlace::Behind(0), Size::None, end)
}

const fn captured(name: &'static str) -> Giver {
    let end = giver(name, Kind::Graph, ResultPlace::Behind(1), Size::None, &DESTROY_GRAPH);
    Giver { ends_capture: true, ..end }
}

/// Those of the runtime (cuda_runtime_api.h), and those of handles of CUDA's libraries, with five arguments at most.
pub(super) static GIVERS: [Giver; 29] = [
    memory("cudaMalloc", Size::Argument(1)),
    memory("cudaMallocAsync", Size::Argument(1)),
    memory("cudaMallocAsync_ptsz", Size::Argument(1)),
    memory("cudaMallocFromPoolAsync", Size::Argument(1)),
    memory("cudaMallocFromPoolAsync_ptsz", Size::Argument(1)),
    memory("cudaMallocManaged", Size::Argument(1)),
    memory("cudaMallocPitch", Size::Pitched),
    thing("cudaMallocHost", Kind::HostMemory, &FREE_HOST),
    thing("cudaHostAlloc", Kind::HostMemory, &FREE_HOST),
    giver(
        "cudaHostRegister",
        Kind::RegisteredMemory,
        ResultPlace::Given,
        Size::None,
        &UNREGISTER_HOST,
    ),
    thing("cudaStreamCreate", Kind::Stream, &DESTROY_STREAM),
    thing("cudaStreamCreateWithFlags", Kind::Stream, &DESTROY_STREAM),
    thing("cudaStreamCreateWithPriority", Kind::Stream, &DESTROY_STREAM),
    thing("cudaEventCreate", Kind::Event, &DESTROY_EVENT),
    thing("cudaEventCreateWithFlags", Kind::Event, &DESTROY_EVENT),
    thing("cudaGraphCreate", Kind::Graph, &DESTROY_GRAPH),
    thing("cudaGraphClone", Kind::Graph, &DESTROY_GRAPH),
    captured("cudaStreamEndCapture"),
    captured("cudaStreamEndCapture_ptsz"),
    thing("cudaGraphInstantiate", Kind::GraphExec, &DESTROY_EXEC),
    thing("cudaGraphInstantiateWithFlags", Kind::GraphExec, &DESTROY_EXEC),
    thing("cudaGraphInstantiateWithParams", Kind::GraphExec, &DESTROY_EXEC),
    thing("cudaGraphInstantiateWithParams_ptsz", Kind::GraphExec, &DESTROY_EXEC),
    thing("cudaMemPoolCreate", Kind::Pool, &DESTROY_POOL),
    thing("cublasCreate_v2", Kind::Handle(0), &DESTROY_CUBLAS),
    thing("cublasLtCreate", Kind::Handle(1), &DESTROY_CUBLAS_LT),
    thing("cudnnCreate", Kind::Handle(2), &DESTROY_CUDNN),
    thing("cusolverDnCreate", Kind::Handle(3), &DESTROY_CUSOLVER),
    thing("cusparseCreate", Kind::Handle(4), &DESTROY_CUSPARSE),
];

pub(super) static TAKERS: [Taker; 15] = [
    Taker { function: &FREE, kind: Kind::Memory },
    Taker { function: &FREE_ASYNC, kind: Kind::Memory },
    Taker { function: &FREE_ASYNC_PTSZ, kind: Kind::Memory },
    Taker { function: &FREE_HOST, kind: Kind::HostMemory },
    Taker { function: &UNREGISTER_HOST, kind: Kind::RegisteredMemory },
    Taker { function: &DESTROY_STREAM, kind: Kind::Stream },
    Taker { function: &DESTROY_EVENT, kind: Kind::Event },
    Taker { function: &DESTROY_GRAPH, kind: Kind::Graph },
    Taker { function: &DESTROY_EXEC, kind: Kind::GraphExec },
    Taker { function: &DESTROY_POOL, kind: Kind::Pool },
    Taker { function: &DESTROY_CUBLAS, kind: Kind::Handle(0) },
    Taker { function: &DESTROY_CUBLAS_LT, kind: Kind::Handle(1) },
    Taker { function: &DESTROY_CUDNN, kind: Kind::Handle(2) },
    Taker { function: &DESTROY_CUSOLVER, kind: Kind::Handle(3) },
    Taker { function: &DESTROY_CUSPARSE, kind: Kind::Handle(4) },
];

impl Giver {
    /// The bytes that the call asks for.
    pub(super) fn wanted(&self, words: &[Word; 9]) -> usize {
        match self.size {
            Size::None => 0,
            Size::Argument(place) => words[place],
            Size::Pitched => words[2].saturating_mul(words[3]),
        }
    }

    /// The thing that the call has given.
    ///
    /// # Safety
    /// The call has succeeded.
    pub(super) unsafe fn given(&self, words: &[Word; 9]) -> Word {
        match self.result {
            ResultPlace::Given => words[0],
            // SAFETY: by contract.
            ResultPlace::Behind(place) => unsafe { *ptr::with_exposed_provenance(words[place]) },
        }
    }
}
