/* The fully connected layers and the loss, for a chunk of samples. Activations have one row per
 * unit and one column per sample, so that a layer is (weights as PyTorch stores them) x
 * (activations) and its lanes are samples. */
#ifndef FEDORBIT_DENSE_H
#define FEDORBIT_DENSE_H

#include <math.h>

#include "live.h"

#define ROW_BLOCK 6 /* rows x 2 vectors = 12 sums in registers */

/* A matrix that is read one value at a time: A[i, k] = data[i * row + k * column]. */
typedef struct {
    const float *data;
    ptrdiff_t row, column;
} Strided;

/* to[rows][columns] (+)= A x b, for rows <= ROW_BLOCK and up to PANEL columns, of which `tail` are
 * in the last vector. */
TILE_FUNCTION void multiply_tile(Strided A, ptrdiff_t depth, const float *b, ptrdiff_t b_stride,
                                 float *to, ptrdiff_t to_stride, ptrdiff_t tail, bool accumulate,
                                 const int rows, const int vecs) {
    vec sum[ROW_BLOCK][2];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int v = 0; v < vecs; v++) sum[i][v] = _mm256_setzero_ps();
    for (ptrdiff_t k = 0; k < depth; k++) {
        vec x[2];
        UNROLL for (int v = 0; v < vecs; v++)
            x[v] = _mm256_loadu_ps(b + k * b_stride + v * LANES);
        UNROLL for (int i = 0; i < rows; i++) {
            const vec a = _mm256_broadcast_ss(A.data + i * A.row + k * A.column);
            UNROLL for (int v = 0; v < vecs; v++) sum[i][v] = _mm256_fmadd_ps(a, x[v], sum[i][v]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int v = 0; v < vecs; v++) {
            float *at = to + i * to_stride + v * LANES;
            if (v == vecs - 1 && tail < LANES) { /* masked stores are slow on some CPUs */
                const ivec mask = first_lanes(tail);
                if (accumulate) sum[i][v] = _mm256_add_ps(sum[i][v], _mm256_maskload_ps(at, mask));
                _mm256_maskstore_ps(at, mask, sum[i][v]);
            } else {
                if (accumulate) sum[i][v] = _mm256_add_ps(sum[i][v], _mm256_loadu_ps(at));
                _mm256_storeu_ps(at, sum[i][v]);
            }
        }
}

static void multiply_rows(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, Strided A,
                          const float *b, ptrdiff_t b_stride, float *to, ptrdiff_t to_stride,
                          bool accumulate) {
    const ptrdiff_t tail = columns > LANES ? columns - LANES : columns;
#define TILE(rows, vecs) \
    multiply_tile(A, depth, b, b_stride, to, to_stride, tail, accumulate, rows, vecs)
    if (columns > LANES) switch (rows) {
        case 1: TILE(1, 2); break;
        case 2: TILE(2, 2); break;
        case 3: TILE(3, 2); break;
        case 4: TILE(4, 2); break;
        case 5: TILE(5, 2); break;
        default: TILE(6, 2); break;
    }
    else switch (rows) {
        case 1: TILE(1, 1); break;
        case 2: TILE(2, 1); break;
        case 3: TILE(3, 1); break;
        case 4: TILE(4, 1); break;
        case 5: TILE(5, 1); break;
        default: TILE(6, 1); break;
    }
#undef TILE
}

/* The right-hand side of a product: rows of PANEL columns lie `row` floats apart, neighbouring
 * panels `panel` floats. In a matrix that is simply stored by rows, panel == PANEL. Its rows
 * must be readable up to the next multiple of eight columns. */
typedef struct {
    const float *data;
    ptrdiff_t row, panel;
} Panels;

/* to[rows][columns] (+)= A[rows, depth] x B[depth, columns]. */
static void multiply(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, Strided A, Panels B,
                     float *to, ptrdiff_t to_stride, bool accumulate) {
    for (ptrdiff_t i = 0; i < rows; i += ROW_BLOCK)
        for (ptrdiff_t j = 0; j < columns; j += PANEL) {
            const Strided block = {A.data + i * A.row, A.row, A.column};
            multiply_rows(smaller(rows - i, ROW_BLOCK), smaller(columns - j, PANEL), depth, block,
                          B.data + j / PANEL * B.panel, B.row, to + i * to_stride + j, to_stride,
                          accumulate);
        }
}

/* Copies up to PANEL rows of a matrix, which become columns of one panel. */
static Panels pack_rows(const float *from, ptrdiff_t stride, ptrdiff_t rows, ptrdiff_t depth,
                        float *packed) {
    for (ptrdiff_t i = 0; i < rows; i += LANES)
        for (ptrdiff_t k = 0; k < depth; k += LANES)
            transpose_block(from + i * stride + k, stride, packed + k * PANEL + i, PANEL);
    return (Panels){packed, PANEL, 0};
}

/* hidden1 = fc1 x features, in blocks of inputs so that packed panels stay in L1. */
static void fc1_forward(Workspace *ws, const float *weights) {
    const ptrdiff_t inputs = ws->shape.features;
    for (ptrdiff_t k = 0; k < inputs; k += DEPTH_BLOCK) {
        const ptrdiff_t depth = smaller(inputs - k, DEPTH_BLOCK);
        for (ptrdiff_t sample = 0; sample < ws->chunk; sample += PANEL) {
            const ptrdiff_t samples = smaller(ws->chunk - sample, PANEL);
            const Panels panel = pack_rows(ws->features + sample * inputs + k, inputs, samples,
                                           depth, ws->packed);
            multiply(HIDDEN1, samples, depth, (Strided){weights + k, inputs, 1}, panel,
                     ws->hidden1 + sample, ws->chunk, k > 0);
        }
    }
}

/* Brings a block of columns of rows that are pages apart together. */
static void pack_columns(const float *from, ptrdiff_t stride, ptrdiff_t rows, ptrdiff_t columns,
                         float *packed) {
    for (ptrdiff_t k = 0; k < rows; k++)
        for (ptrdiff_t j = 0; j < columns; j += LANES)
            _mm256_store_ps(packed + k * INPUT_BLOCK + j, _mm256_loadu_ps(from + k * stride + j));
}

/* [units][chunk] -> [chunk][units rounded up to eight]. */
static void to_rows(const Workspace *ws, const float *units, ptrdiff_t count, float *rows) {
    const ptrdiff_t width = round_up(count, LANES);
    for (ptrdiff_t i = 0; i < width; i += LANES)
        for (ptrdiff_t j = 0; j < ws->chunk; j += LANES)
            transpose_block(units + i * ws->chunk + j, ws->chunk, rows + j * width + i, width);
}

/* Lists for every unit its samples with a gradient. */
static void collect_units(Workspace *ws) {
    for (ptrdiff_t i = 0; i < HIDDEN1; i++)
        ws->unit_live[i] = collect_row(ws, ws->hidden1_grad + i * ws->chunk, ws->chunk,
                                       INPUT_BLOCK, ws->unit_live[i]);
}

/* Lists for every sample its units with a gradient. */
static void collect_samples(Workspace *ws) {
    to_rows(ws, ws->hidden1_grad, HIDDEN1, ws->hidden1_rows);
    for (ptrdiff_t i = 0; i < ws->chunk; i++)
        for (ptrdiff_t j = 0; j < HIDDEN1; j += CHUNK) {
            LiveRow *list = &ws->sample_live[i * HIDDEN1_BLOCKS + j / CHUNK];
            *list = collect_row(ws, ws->hidden1_rows + i * HIDDEN1 + j,
                                smaller(HIDDEN1 - j, CHUNK), INPUT_BLOCK, *list);
        }
}

/* Gradients of fc1's weights and, if asked for, of its inputs, a block of inputs at a time. */
static void fc1_backward(Workspace *ws, const float *weights, ptrdiff_t samples,
                         float *weights_grad, bool accumulate, bool inputs_too) {
    const ptrdiff_t inputs = ws->shape.features, panels = inputs / PANEL;
    const ptrdiff_t blocks = (inputs + INPUT_BLOCK - 1) / INPUT_BLOCK;
    collect_units(ws);
    if (inputs_too) collect_samples(ws);
    for (ptrdiff_t block = 0; block < blocks; block++) { /* of almost equal size */
        const ptrdiff_t first = block * panels / blocks * PANEL;
        const ptrdiff_t columns = (block + 1) * panels / blocks * PANEL - first;
        pack_columns(ws->features + first, inputs, samples, columns, ws->packed);
        for (ptrdiff_t i = 0; i < HIDDEN1; i++)
            sum_rows(ws->unit_live[i], ws->packed, weights_grad + i * inputs + first, accumulate,
                     columns);
        for (ptrdiff_t j = 0; inputs_too && j < HIDDEN1; j += CHUNK) {
            pack_columns(weights + j * inputs + first, inputs, smaller(HIDDEN1 - j, CHUNK), columns,
                         ws->packed);
            for (ptrdiff_t i = 0; i < samples; i++)
                sum_rows(ws->sample_live[i * HIDDEN1_BLOCKS + j / CHUNK], ws->packed,
                         ws->features_grad + i * inputs + first, j > 0, columns);
        }
    }
}

/* A matrix as it is stored. */
static inline Panels by_rows(const float *data, ptrdiff_t stride) {
    return (Panels){data, stride, PANEL};
}

static void add_bias(const Workspace *ws, float *units, const float *bias, ptrdiff_t count,
                     bool relu) {
    for (ptrdiff_t i = 0; i < count; i++)
        for (ptrdiff_t j = 0; j < ws->chunk; j += LANES) {
            float *at = units + i * ws->chunk + j;
            const vec y = _mm256_add_ps(_mm256_load_ps(at), _mm256_broadcast_ss(bias + i));
            _mm256_store_ps(at, relu ? _mm256_max_ps(_mm256_setzero_ps(), y) : y);
        }
}

static void dense_forward(Workspace *ws, const float *parameters) {
    const Shape *s = &ws->shape;
    const ptrdiff_t stride = ws->chunk;
    fc1_forward(ws, parameters + s->fc1_w);
    add_bias(ws, ws->hidden1, parameters + s->fc1_b, HIDDEN1, true);
    multiply(HIDDEN2, stride, HIDDEN1, (Strided){parameters + s->fc2_w, HIDDEN1, 1},
             by_rows(ws->hidden1, stride), ws->hidden2, stride, false);
    add_bias(ws, ws->hidden2, parameters + s->fc2_b, HIDDEN2, true);
    multiply(s->classes, stride, HIDDEN2, (Strided){parameters + s->fc3_w, HIDDEN2, 1},
             by_rows(ws->hidden2, stride), ws->logits, stride, false);
    add_bias(ws, ws->logits, parameters + s->fc3_b, s->classes, false);
}

/* Cross-entropy of one column of logits; the first maximum is the prediction. */
static double cross_entropy(const Workspace *ws, ptrdiff_t sample, int64_t label,
                            ptrdiff_t *prediction, float *largest, float *total) {
    const float *logit = ws->logits + sample;
    ptrdiff_t best = 0;
    for (ptrdiff_t k = 1; k < ws->shape.classes; k++)
        if (logit[k * ws->chunk] > logit[best * ws->chunk]) best = k;
    const float top = logit[best * ws->chunk];
    float sum = 0;
    for (ptrdiff_t k = 0; k < ws->shape.classes; k++) sum += expf(logit[k * ws->chunk] - top);
    *prediction = best, *largest = top, *total = sum;
    return log((double)sum) + (double)top - (double)logit[label * ws->chunk];
}

/* Replaces a column of logits by (softmax - one-hot) * weight. */
static double loss_gradient(Workspace *ws, ptrdiff_t sample, int64_t label, float weight) {
    ptrdiff_t prediction;
    float top, sum;
    const double loss = cross_entropy(ws, sample, label, &prediction, &top, &sum);
    float *logit = ws->logits + sample;
    for (ptrdiff_t k = 0; k < ws->shape.classes; k++) {
        const float p = expf(logit[k * ws->chunk] - top) / sum;
        logit[k * ws->chunk] = (p - (k == label ? 1.0f : 0.0f)) * weight;
    }
    return loss;
}

/* grad = 0 where the unit is off. */
static void mask_relu(const Workspace *ws, const float *units, float *grad, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count * ws->chunk; i += LANES) {
        const vec on = _mm256_cmp_ps(_mm256_load_ps(units + i), _mm256_setzero_ps(), _CMP_GT_OQ);
        _mm256_store_ps(grad + i, _mm256_and_ps(on, _mm256_load_ps(grad + i)));
    }
}

static void bias_gradient(const Workspace *ws, const float *grad, ptrdiff_t units, float *bias_grad,
                          bool accumulate) {
    for (ptrdiff_t i = 0; i < units; i++) {
        vec sum = _mm256_setzero_ps();
        for (ptrdiff_t j = 0; j < ws->chunk; j += LANES)
            sum = _mm256_add_ps(sum, _mm256_load_ps(grad + i * ws->chunk + j));
        bias_grad[i] = (accumulate ? bias_grad[i] : 0.0f) + sum_lanes(sum);
    }
}

/* From (softmax - one-hot) in `logits` to the gradients of the fully connected part, back to the
 * layer of the parameter `begin`; if that lies before fc1, to those of its inputs. Columns past the
 * last sample must be zero in `logits`. */
static void dense_backward(Workspace *ws, const float *parameters, ptrdiff_t samples,
                           float *gradient, bool accumulate, ptrdiff_t begin) {
    const Shape *s = &ws->shape;
    const ptrdiff_t stride = ws->chunk, width2 = round_up(HIDDEN2, LANES);
    to_rows(ws, ws->hidden2, HIDDEN2, ws->hidden2_rows);
    multiply(s->classes, HIDDEN2, samples, (Strided){ws->logits, stride, 1}, 
             by_rows(ws->hidden2_rows, width2), gradient + s->fc3_w, HIDDEN2, accumulate);
    bias_gradient(ws, ws->logits, s->classes, gradient + s->fc3_b, accumulate);
    if (begin >= s->fc3_w) return;
    multiply(HIDDEN2, stride, s->classes, (Strided){parameters + s->fc3_w, 1, HIDDEN2}, 
             by_rows(ws->logits, stride), ws->hidden2_grad, stride, false);
    mask_relu(ws, ws->hidden2, ws->hidden2_grad, HIDDEN2);

    to_rows(ws, ws->hidden1, HIDDEN1, ws->hidden1_rows);
    multiply(HIDDEN2, HIDDEN1, samples, (Strided){ws->hidden2_grad, stride, 1}, 
             by_rows(ws->hidden1_rows, HIDDEN1), gradient + s->fc2_w, HIDDEN1, accumulate);
    bias_gradient(ws, ws->hidden2_grad, HIDDEN2, gradient + s->fc2_b, accumulate);
    if (begin >= s->fc2_w) return;
    multiply(HIDDEN1, stride, HIDDEN2, (Strided){parameters + s->fc2_w, 1, HIDDEN1},
             by_rows(ws->hidden2_grad, stride), ws->hidden1_grad, stride, false);
    mask_relu(ws, ws->hidden1, ws->hidden1_grad, HIDDEN1);

    bias_gradient(ws, ws->hidden1_grad, HIDDEN1, gradient + s->fc1_b, accumulate);
    fc1_backward(ws, parameters + s->fc1_w, samples, gradient + s->fc1_w, accumulate,
                 begin < s->fc1_w);
}

#endif
