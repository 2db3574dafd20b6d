/* A libcuda.so.1 that libcaffe2_nvrtc.so of torch 2.11 can be loaded over. torch asks it whether the device's primary context is
 * active; nothing else is ever called where there are no kernels, and says so (CUDA_ERROR_NOT_SUPPORTED). */

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    *flags = 0;
    *active = 1;
    return 0;
}

#define ABSENT(name) int name(void) { return 801; }

ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxSetCurrent)
ABSENT(cuDeviceGet)
ABSENT(cuDeviceGetAttribute)
ABSENT(cuDevicePrimaryCtxRetain)
ABSENT(cuFuncGetAttribute)
ABSENT(cuFuncSetAttribute)
ABSENT(cuFuncSetCacheConfig)
ABSENT(cuGetErrorString)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuLaunchKernel)
ABSENT(cuLinkAddData_v2)
ABSENT(cuLinkComplete)
ABSENT(cuLinkCreate_v2)
ABSENT(cuModuleGetFunction)
ABSENT(cuModuleLoad)
ABSENT(cuModuleLoadData)
ABSENT(cuModuleLoadDataEx)
ABSENT(cuModuleUnload)
ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
ABSENT(cuPointerGetAttribute)
ABSENT(cuTensorMapEncodeTiled)
