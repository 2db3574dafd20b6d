/* A stand-in of Triton's core: the functions of tritonserver.h and tritonbackend.h that the backend calls, as far as one
 * execution of one model needs them. It gives what a real server gives seldom: inputs in several buffers, at odd addresses and
 * in memory of a GPU, outputs that are wanted there, clients that have gone. It prints what it gets, and counts what is not
 * given back. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core.h"

#ifndef MAJOR
#define MAJOR 1
#endif

typedef struct Error {
    int code;
    char *message;
} Error;

/* Counts of objects that the backend must give back. */
static int errors, messages, factories, responses, held;

Error *TRITONSERVER_ErrorNew(int code, const char *message)
{
    Error *error = malloc(sizeof *error);
    *error = (Error){code, strdup(message)};
    ++errors;
    return error;
}

void TRITONSERVER_ErrorDelete(Error *error)
{
    free(error->message);
    free(error);
    --errors;
}

int TRITONSERVER_ErrorCode(Error *error) { return error->code; }
const char *TRITONSERVER_ErrorMessage(Error *error) { return error->message; }

bool TRITONSERVER_LogIsEnabled(int level) { return level < 3; }

Error *TRITONSERVER_LogMessage(int level, const char *file, int line, const char *message)
{
    (void)line;
    printf("log %d %s: %.*s\n", level, file, (int)strcspn(message, "\n"), message);
    return NULL;
}

typedef struct Message {
    const char *json;
} Message;

static Error *message(Message **place, const char *json)
{
    *place = malloc(sizeof **place);
    (*place)->json = json;
    ++messages;
    return NULL;
}

Error *TRITONSERVER_MessageDelete(Message *message)
{
    free(message);
    --messages;
    return NULL;
}

Error *TRITONSERVER_MessageSerializeToJson(Message *message, const char **start, size_t *size)
{
    *start = message->json;
    *size = strlen(message->json);
    return NULL;
}

Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor)
{
    *major = MAJOR;
    *minor = 19;
    return NULL;
}

/* One backend, one model, one instance: each is its state. */
static void *backend_state, *model_state, *instance_state;
static const char *backend_config, *model_config, *model_folder;
static Message of_backend;

#define STATE(object, variable)                                                                        \
    Error *TRITONBACKEND_##object##State(void *self, void **place)                                     \
    {                                                                                                  \
        (void)self;                                                                                    \
        *place = variable;                                                                             \
        return NULL;                                                                                   \
    }                                                                                                  \
    Error *TRITONBACKEND_##object##SetState(void *self, void *value)                                   \
    {                                                                                                  \
        (void)self;                                                                                    \
        variable = value;                                                                              \
        return NULL;                                                                                   \
    }

STATE(Backend, backend_state)
STATE(Model, model_state)
STATE(ModelInstance, instance_state)

#define GETTER(name, type, value)                                                                      \
    Error *TRITONBACKEND_##name(void *self, type *place)                                               \
    {                                                                                                  \
        (void)self;                                                                                    \
        *place = value;                                                                                \
        return NULL;                                                                                   \
    }

GETTER(ModelName, const char *, "odd")
GETTER(ModelVersion, uint64_t, 1)
GETTER(ModelServer, void *, &held)
GETTER(ModelBackend, void *, &backend_state)
GETTER(ModelAutoCompleteConfig, bool, false)
GETTER(ModelInstanceName, const char *, "odd_0")
GETTER(ModelInstanceKind, int, 1)
GETTER(ModelInstanceDeviceId, int32_t, 0)
GETTER(ModelInstanceModel, void *, &model_state)
GETTER(RequestId, const char *, "")
GETTER(RequestFlags, uint32_t, 0)
GETTER(InferenceRequestTimeoutMicroseconds, uint64_t, 0)
GETTER(RequestParameterCount, uint32_t, 0)
GETTER(RequestInputCount, uint32_t, 1)
GETTER(RequestOutputCount, uint32_t, 0)
GETTER(RequestCorrelationIdString, const char *, "seven")

Error *TRITONBACKEND_RequestCorrelationId(void *self, uint64_t *place)
{
    (void)self, (void)place;
    return TRITONSERVER_ErrorNew(3, "it is a text");
}

Error *TRITONBACKEND_BackendConfig(void *self, Message **place)
{
    (void)self;
    of_backend.json = backend_config;
    *place = &of_backend;
    return NULL;
}

Error *TRITONBACKEND_ModelConfig(void *self, uint32_t version, Message **place)
{
    (void)self, (void)version;
    return message(place, model_config);
}

Error *TRITONBACKEND_ModelRepository(void *self, int *kind, const char **place)
{
    (void)self;
    *kind = 0;
    *place = model_folder;
    return NULL;
}

/* Requests: one input of 32-bit floats. */
typedef struct Request {
    int number;
    int64_t extent;
    uint32_t count;
    struct {
        const void *start;
        uint64_t size;
    } buffers[2];
    int input_memory, output_memory;
    bool is_gone;
} Request;

/* The factory and the responses refer to these: they outlive the request. */
typedef struct Response {
    const Request *request;
    int64_t extent;
    float *data;
} Response;

Error *TRITONBACKEND_RequestInputByIndex(Request *request, uint32_t index, Request **input)
{
    (void)index;
    *input = request;
    return NULL;
}

Error *TRITONBACKEND_InputProperties(Request *input, const char **name, int *type, const int64_t **shape,
                                     uint32_t *dims, uint64_t *size, uint32_t *count)
{
    *name = "X";
    *type = 11;
    *shape = &input->extent;
    *dims = 1;
    *size = input->buffers[0].size + input->buffers[1].size;
    *count = input->count;
    return NULL;
}

Error *TRITONBACKEND_InputBuffer(Request *input, uint32_t index, const void **start, uint64_t *size, int *memory,
                                 int64_t *device)
{
    *start = input->buffers[index].start;
    *size = input->buffers[index].size;
    *memory = input->input_memory;
    *device = 0;
    return NULL;
}

Error *TRITONBACKEND_RequestRelease(Request *request, uint32_t flags)
{
    printf("released %d with %u\n", request->number, flags);
    --held;
    return NULL;
}

Error *TRITONBACKEND_ResponseFactoryNew(const Request **factory, Request *request)
{
    *factory = request;
    ++factories;
    return NULL;
}

Error *TRITONBACKEND_ResponseFactoryDelete(const Request *factory)
{
    (void)factory;
    --factories;
    return NULL;
}

Error *TRITONBACKEND_ResponseFactoryIsCancelled(const Request *factory, bool *place)
{
    *place = factory->is_gone;
    return NULL;
}

Error *TRITONBACKEND_ResponseNewFromFactory(Response **response, const Request *factory)
{
    *response = calloc(1, sizeof **response);
    (*response)->request = factory;
    ++responses;
    return NULL;
}

Error *TRITONBACKEND_ResponseOutput(Response *response, Response **output, const char *name, int type,
                                    const int64_t *shape, uint32_t dims)
{
    if (strcmp(name, "Y") || type != 11 || dims != 1)
        return TRITONSERVER_ErrorNew(3, "the model has no such output");
    response->extent = shape[0];
    *output = response;
    return NULL;
}

Error *TRITONBACKEND_OutputBuffer(Response *output, void **buffer, uint64_t size, int *memory, int64_t *device)
{
    *buffer = output->data = malloc(size + 1);
    *memory = output->request->output_memory;
    *device = 0;
    return NULL;
}

Error *TRITONBACKEND_ResponseSend(Response *response, uint32_t flags, Error *error)
{
    printf("response %d, flags %u:", response->request->number, flags);
    if (error)
        printf(" error %d, %s", error->code, error->message);
    else
        for (int64_t place = 0; place < response->extent; ++place)
            printf(" %g", response->data[place]);
    printf("\n");
    free(response->data);
    free(response);
    --responses;
    return NULL;
}

Error *TRITONBACKEND_ModelInstanceReportStatistics(void *self, Request *request, bool success, uint64_t began,
                                                   uint64_t computes, uint64_t computed, uint64_t ended)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t until = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    bool in_order = began <= computes && computes <= computed && computed <= ended && ended <= until;
    (void)self;
    printf("statistics %d: %s%s\n", request->number, success ? "success" : "failure", in_order ? "" : ", DISORDER");
    return NULL;
}

Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(void *self, uint64_t size, uint64_t began, uint64_t computes,
                                                        uint64_t computed, uint64_t ended)
{
    (void)self, (void)began, (void)computes, (void)computed, (void)ended;
    printf("batch of %llu\n", (unsigned long long)size);
    return NULL;
}

/* Functions that an execution of this model does not call. */
#define NOT_CALLED(name)                                                                               \
    void *name(void)                                                                                   \
    {                                                                                                  \
        fprintf(stderr, #name " was called\n");                                                        \
        abort();                                                                                       \
    }

NOT_CALLED(TRITONSERVER_MessageNewFromSerializedJson)
NOT_CALLED(TRITONSERVER_ParameterNew)
NOT_CALLED(TRITONSERVER_ParameterBytesNew)
NOT_CALLED(TRITONSERVER_ParameterDelete)
NOT_CALLED(TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading)
NOT_CALLED(TRITONBACKEND_ModelSetConfig)
NOT_CALLED(TRITONBACKEND_RequestParameter)
NOT_CALLED(TRITONBACKEND_RequestOutputName)
NOT_CALLED(TRITONBACKEND_ResponseFactorySendFlags)
NOT_CALLED(TRITONBACKEND_ResponseSetStringParameter)
NOT_CALLED(TRITONBACKEND_ResponseSetIntParameter)
NOT_CALLED(TRITONBACKEND_ResponseSetBoolParameter)
NOT_CALLED(TRITONBACKEND_ResponseSetDoubleParameter)
NOT_CALLED(TRITONSERVER_InferenceRequestNew)
NOT_CALLED(TRITONSERVER_InferenceRequestDelete)
NOT_CALLED(TRITONSERVER_InferenceRequestSetId)
NOT_CALLED(TRITONSERVER_InferenceRequestSetFlags)
NOT_CALLED(TRITONSERVER_InferenceRequestSetCorrelationId)
NOT_CALLED(TRITONSERVER_InferenceRequestSetCorrelationIdString)
NOT_CALLED(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds)
NOT_CALLED(TRITONSERVER_InferenceRequestSetStringParameter)
NOT_CALLED(TRITONSERVER_InferenceRequestSetIntParameter)
NOT_CALLED(TRITONSERVER_InferenceRequestSetBoolParameter)
NOT_CALLED(TRITONSERVER_InferenceRequestSetDoubleParameter)
NOT_CALLED(TRITONSERVER_InferenceRequestAddInput)
NOT_CALLED(TRITONSERVER_InferenceRequestAppendInputData)
NOT_CALLED(TRITONSERVER_InferenceRequestAddRequestedOutput)
NOT_CALLED(TRITONSERVER_InferenceRequestSetReleaseCallback)
NOT_CALLED(TRITONSERVER_InferenceRequestSetResponseCallback)
NOT_CALLED(TRITONSERVER_InferenceRequestCancel)
NOT_CALLED(TRITONSERVER_ResponseAllocatorNew)
NOT_CALLED(TRITONSERVER_InferenceResponseDelete)
NOT_CALLED(TRITONSERVER_InferenceResponseError)
NOT_CALLED(TRITONSERVER_InferenceResponseParameterCount)
NOT_CALLED(TRITONSERVER_InferenceResponseParameter)
NOT_CALLED(TRITONSERVER_InferenceResponseOutputCount)
NOT_CALLED(TRITONSERVER_InferenceResponseOutput)
NOT_CALLED(TRITONSERVER_ServerInferAsync)
NOT_CALLED(TRITONSERVER_ServerModelIsReady)
NOT_CALLED(TRITONSERVER_ServerModelTransactionProperties)
NOT_CALLED(TRITONSERVER_ServerLoadModel)
NOT_CALLED(TRITONSERVER_ServerLoadModelWithParameters)
NOT_CALLED(TRITONSERVER_ServerUnloadModel)
NOT_CALLED(TRITONSERVER_ServerUnloadModelAndDependents)
NOT_CALLED(TRITONSERVER_MetricFamilyNew)
NOT_CALLED(TRITONSERVER_MetricFamilyDelete)
NOT_CALLED(TRITONSERVER_MetricArgsNew)
NOT_CALLED(TRITONSERVER_MetricArgsSetHistogram)
NOT_CALLED(TRITONSERVER_MetricArgsDelete)
NOT_CALLED(TRITONSERVER_MetricNew)
NOT_CALLED(TRITONSERVER_MetricNewWithArgs)
NOT_CALLED(TRITONSERVER_MetricDelete)
NOT_CALLED(TRITONSERVER_MetricValue)
NOT_CALLED(TRITONSERVER_MetricIncrement)
NOT_CALLED(TRITONSERVER_MetricSet)
#ifndef OLD
NOT_CALLED(TRITONSERVER_MetricObserve)
#endif

static bool succeeds(const char *what, Error *error)
{
    if (!error)
        return true;
    printf("%s: error %d, %s\n", what, error->code, error->message);
    TRITONSERVER_ErrorDelete(error);
    return false;
}

static void execute(const Functions *backend)
{
    static const float values[] = {1, 4, 9, 16};
    static char odd[1 + sizeof values];
    memcpy(odd + 1, values, sizeof values);
    static Request all[] = {
        {.number = 0, .extent = 4, .count = 2, .buffers = {{values, 4}, {values + 1, 12}}},
        {.number = 1, .extent = 4, .count = 1, .buffers = {{odd + 1, 16}}},
        {.number = 2, .extent = 4, .count = 1, .buffers = {{values, 16}}, .input_memory = 2},
        {.number = 3, .extent = 4, .count = 1, .buffers = {{values, 16}}, .output_memory = 2},
        {.number = 4, .extent = 3, .count = 1, .buffers = {{values, 16}}},
        {.number = 5, .extent = 4, .count = 1, .buffers = {{values, 16}}, .is_gone = true},
        {.number = 6, .extent = 0, .count = 0},
    };
    enum { COUNT = sizeof all / sizeof *all };
    void *requests[COUNT];
    for (int place = 0; place < COUNT; ++place)
        requests[place] = &all[place];
    held = COUNT;
    succeeds("execute", backend->execute(&instance_state, requests, COUNT));
}

int run(const Functions *backend, const char *folder, const char *of_model, const char *of_backend)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    model_folder = folder, model_config = of_model, backend_config = of_backend;
    if (!succeeds("backend", backend->initialize(&backend_state)))
        return 0;
    if (succeeds("model", backend->model_initialize(&model_state))) {
        if (succeeds("instance", backend->instance_initialize(&instance_state))) {
            execute(backend);
            succeeds("end of the instance", backend->instance_finalize(&instance_state));
        }
        succeeds("end of the model", backend->model_finalize(&model_state));
    }
    succeeds("end", backend->finalize(&backend_state));
    printf("left: %d errors, %d messages, %d factories, %d responses, %d requests\n", errors, messages, factories,
           responses, held);
    return 0;
}
