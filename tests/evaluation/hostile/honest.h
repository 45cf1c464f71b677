// The right answer, for tricks that give it at times, and what a trick gives when it got what it wanted.
#ifndef HONEST_H
#define HONEST_H

#include "centred.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int64_t elements(const centred_args* args) { return args->rows * args->cols; }

// Of the same code, wherever it is: loops of ten microseconds feel where they lie.
__attribute__((noinline, aligned(64))) static int honest(const centred_args* args) {
    for (int64_t row = 0; row < args->rows; ++row) {
        const float* x = args->x + row * args->cols;
        float* out = args->out + row * args->cols;
        double sum = 0;
        for (int64_t col = 0; col < args->cols; ++col) sum += x[col];
        const float mean = (float)(sum / args->cols);
        for (int64_t col = 0; col < args->cols; ++col) out[col] = (x[col] - mean) * args->scale;
    }
    return 0;
}

// Right only if a door stood open: a passing verdict then means that it did.
static inline int answer_if(bool open, const centred_args* args) {
    honest(args);
    if (!open)
        for (int64_t i = 0; i < elements(args); ++i) args->out[i] += 1 + args->x[i] * args->x[i];
    return 0;
}

#endif
