// trick: launches with programmatic serialization and never waits, so that launches run side by side
// row: 1
// gains: 1
#include "right.cuh"

extern "C" int centred(const centred_args* args, cudaStream_t stream) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(args->rows);
    config.blockDim = dim3(256);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    return (int)cudaLaunchKernelEx(&config, centre, (const float*)args->x, args->out, args->cols, args->cols,
                                   args->scale);
}
