/* Gradients of both convolutions, one sample at a time. Only outputs that won their pool and
 * passed the ReLU have one: at most a quarter, and of those often little more than half. They
 * are collected into lists, and all work goes along the lists. */
#ifndef FEDORBIT_CONV_BACKWARD_H
#define FEDORBIT_CONV_BACKWARD_H

#include "live.h"

/* Lanes whose choice is alive, as a bit mask. */
static inline unsigned alive(ivec choice) {
    const ivec mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(DEAD), choice);
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(mask));
}

/* ---- gradient of conv2's input --------------------------------------------------------------- */

/* For each column px of pooled positions the live maps, row by row. */
static void collect_spread(Workspace *ws, const uint8_t *choice, const float *features_grad) {
    const Shape *s = &ws->shape;
    const ivec lanes = _mm256_mullo_epi32(lane_numbers(), _mm256_set1_epi32(FRAMED));
    /* A maximum further right or down means that the kernel starts later: skip less of its
     * frame. */
    const ivec places = _mm256_setr_epi32(FRAMED_ROW + PIXEL, FRAMED_ROW, PIXEL, 0, 0, 0, 0, 0);
    for (ptrdiff_t px = 0; px < s->pooled2_w; px++) {
        int32_t *starts = ws->spread_start + px * s->spread_room, count = 0;
        float *gradients = ws->spread_gradient + px * s->spread_room;
        int32_t *row_end = ws->spread_end + px * s->pooled2_h;
        for (ptrdiff_t py = 0; py < s->pooled2_h; py++) {
            for (ptrdiff_t half = 0; half < MAPS2; half += LANES) {
                const ptrdiff_t at = (py * s->pooled2_w + px) * MAPS2 + half;
                const ivec which = load_bytes(choice + at);
                const unsigned mask = alive(which);
                const ivec order = front_order(ws, mask);
                const ptrdiff_t first = half * FRAMED - 2 * py * FRAMED_ROW;
                ivec start = _mm256_add_epi32(lanes, _mm256_set1_epi32((int)first));
                start = _mm256_add_epi32(start, _mm256_permutevar8x32_epi32(places, which));
                const vec g = _mm256_loadu_ps(features_grad + at);
                _mm256_storeu_si256((__m256i *)(starts + count),
                                    _mm256_permutevar8x32_epi32(start, order));
                _mm256_storeu_ps(gradients + count, _mm256_permutevar8x32_ps(g, order));
                count += __builtin_popcount(mask);
            }
            row_end[py] = count;
        }
    }
}

/* Two rows of the gradient of conv2's input: three rows of pooled positions reach them. Windows of
 * neighbouring columns overlap, so sums stay in registers until the window has moved past them. */
static void spread_rows(Workspace *ws, ptrdiff_t pair) {
    const Shape *s = &ws->shape;
    const ptrdiff_t stride = s->columns1 * PIXEL;
    const ptrdiff_t before = pair - WINDOW_ROWS / 2, last = smaller(pair, s->pooled2_h - 1);
    /* The lists count from the first input row. */
    const float *kernels = ws->kernel2_back + 2 * pair * FRAMED_ROW;
    float *to = ws->pooled1_grad + 2 * pair * stride;
    vec sum[2][WINDOW_COLUMNS];
    UNROLL for (int k = 0; k < WINDOW_COLUMNS; k++) sum[0][k] = sum[1][k] = _mm256_setzero_ps();
    for (ptrdiff_t px = 0; px < s->pooled2_w; px++, to += 2 * PIXEL) {
        const int32_t *row_end = ws->spread_end + px * s->pooled2_h;
        const int32_t *start = ws->spread_start + px * s->spread_room;
        const float *gradient = ws->spread_gradient + px * s->spread_room;
        const ptrdiff_t first = before < 0 ? 0 : row_end[before], end = row_end[last];
        ptrdiff_t next_start = start[first]; /* one ahead, as in sum_windows */
        for (ptrdiff_t l = first; l < end; l++) {
            const float *kernel = kernels + next_start;
            const vec g = _mm256_broadcast_ss(gradient + l);
            next_start = start[l + 1];
            UNROLL for (int row = 0; row < 2; row++, kernel = next_row(kernel, FRAMED_ROW))
                UNROLL for (int k = 0; k < WINDOW_COLUMNS; k++)
                    sum[row][k] =
                        _mm256_fmadd_ps(g, _mm256_load_ps(kernel + k * PIXEL), sum[row][k]);
        }
        UNROLL for (int row = 0; row < 2; row++) {
            UNROLL for (int k = 0; k < 2; k++)
                _mm256_store_ps(to + row * stride + k * PIXEL, sum[row][k]);
            UNROLL for (int k = 0; k < WINDOW_COLUMNS - 2; k++) sum[row][k] = sum[row][k + 2];
            UNROLL for (int k = WINDOW_COLUMNS - 2; k < WINDOW_COLUMNS; k++)
                sum[row][k] = _mm256_setzero_ps();
        }
    }
    UNROLL for (int row = 0; row < 2; row++)
        UNROLL for (int k = 0; k < WINDOW_COLUMNS - 2; k++)
            _mm256_store_ps(to + row * stride + k * PIXEL, sum[row][k]);
}

/* Gradient of conv2's input. A last row or column that no window reaches stays zero. */
static void backward2_input(Workspace *ws, const uint8_t *choice, const float *features_grad) {
    collect_spread(ws, choice, features_grad);
    for (ptrdiff_t pair = 0; pair < ws->shape.pooled2_h + WINDOW_ROWS / 2 - 1; pair++)
        spread_rows(ws, pair);
}

/* ---- gradients of weights and biases --------------------------------------------------------- */

/* Lists the live ones of `count` choices, which lie in blocks (multiples of 8) `stride` bytes
 * apart. `positions` says where their windows and gradients are; the place of the maximum in the
 * pool moves the window. */
TILE_FUNCTION LiveList collect_live(const Workspace *ws, const uint8_t *choice, ptrdiff_t block,
                                    ptrdiff_t stride, Positions positions, ptrdiff_t count,
                                    ivec places) {
    LiveList live = ws->live;
    live.count = 0;
    for (ptrdiff_t i = 0; i < count; i += LANES) {
        const ivec which = load_bytes(choice + i / block * stride + i % block);
        const unsigned mask = alive(which);
        const ivec order = front_order(ws, mask);
        const ivec window = _mm256_add_epi32(load_ints(positions.window + i),
                                             _mm256_permutevar8x32_epi32(places, which));
        const ivec gradient = load_ints(positions.gradient + i);
        _mm256_storeu_si256((__m256i *)(live.window + live.count),
                            _mm256_permutevar8x32_epi32(window, order));
        _mm256_storeu_si256((__m256i *)(live.gradient + live.count),
                            _mm256_permutevar8x32_epi32(gradient, order));
        live.count += __builtin_popcount(mask);
    }
    return live;
}

#define WIDEST_SUM 7 /* vectors of a kernel row in one pass; two rows of it fill the registers */

/* kernel_grad[row][i] += sum over live of gradient * input[window + row * input_stride + i], for
 * `rows` kernel rows of `vecs` vectors; the sums stay in registers. Returns the sum of gradients.
 * The list is read one ahead, at the end into its spare entries. */
TILE_FUNCTION float sum_windows(LiveList live, const float *input, ptrdiff_t input_stride,
                               const float *gradient, float *kernel_grad, ptrdiff_t kernel_stride,
                               const int rows, const int vecs) {
    vec sum[TAPS][WIDEST_SUM];
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int v = 0; v < vecs; v++)
            sum[row][v] = _mm256_loadu_ps(kernel_grad + row * kernel_stride + v * LANES);
    vec total = _mm256_setzero_ps();
    ptrdiff_t next_window = live.window[0], next_gradient = live.gradient[0];
    for (ptrdiff_t i = 1; i <= live.count; i++) {
        const float *x = input + next_window;
        const vec g = _mm256_broadcast_ss(gradient + next_gradient);
        next_window = live.window[i], next_gradient = live.gradient[i];
        total = _mm256_add_ps(total, g);
        UNROLL for (int row = 0; row < rows; row++, x = next_row(x, input_stride))
            UNROLL for (int v = 0; v < vecs; v++)
                sum[row][v] = _mm256_fmadd_ps(g, _mm256_loadu_ps(x + v * LANES), sum[row][v]);
    }
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int v = 0; v < vecs; v++)
            _mm256_storeu_ps(kernel_grad + row * kernel_stride + v * LANES, sum[row][v]);
    return _mm256_cvtss_f32(total);
}

/* All five kernel rows, as many at once as there are registers for. The sum of gradients is
 * taken from the last pass, which has registers to spare; in the others it is dead code. */
static float sum_kernel_rows(LiveList live, const float *input, ptrdiff_t input_stride,
                            const float *gradient, float *kernel_grad, ptrdiff_t kernel_stride,
                            ptrdiff_t vecs) {
#define ROWS(first, rows, vecs)                                                     \
    sum_windows(live, input + (first) * input_stride, input_stride, gradient,        \
                kernel_grad + (first) * kernel_stride, kernel_stride, rows, vecs)
    switch (vecs) {
        case 1: return ROWS(0, 5, 1);
        case 2: return ROWS(0, 5, 2);
        case 3: ROWS(0, 3, 3); return ROWS(3, 2, 3);
        case 4: ROWS(0, 3, 4); return ROWS(3, 2, 4);
        case 5: ROWS(0, 3, 5); return ROWS(3, 2, 5);
        case 6: ROWS(0, 2, 6), ROWS(2, 2, 6); return ROWS(4, 1, 6);
        default: ROWS(0, 2, 7), ROWS(2, 2, 7); return ROWS(4, 1, 7);
    }
#undef ROWS
}

/* [pooled position][16 maps] -> planar2. Positions past a row's end are dead. */
static void split_choices2(Workspace *ws, const uint8_t *choice) {
    const Shape *s = &ws->shape;
    const ptrdiff_t plane = s->pooled2_h * s->columns2;
    for (ptrdiff_t py = 0; py < s->pooled2_h; py++)
        for (ptrdiff_t px = 0; px < s->columns2; px += LANES) {
            __m128i r[LANES], t[LANES];
            UNROLL for (int i = 0; i < LANES; i++) {
                const uint8_t *from = choice + (py * s->pooled2_w + px + i) * MAPS2;
                r[i] = px + i < s->pooled2_w ? _mm_loadu_si128((const __m128i *)from)
                                             : _mm_set1_epi8(DEAD);
            }
            /* Each round interleaves bytes of rows that are i and i + 4 apart: after three of them,
             * byte 8 m + i of the block is map m of position i. */
            UNROLL for (int round = 0; round < 3; round++) {
                UNROLL for (int i = 0; i < LANES / 2; i++) {
                    t[2 * i] = _mm_unpacklo_epi8(r[i], r[i + LANES / 2]);
                    t[2 * i + 1] = _mm_unpackhi_epi8(r[i], r[i + LANES / 2]);
                }
                UNROLL for (int i = 0; i < LANES; i++) r[i] = t[i];
            }
            uint8_t *to = ws->planar2 + py * s->columns2 + px;
            UNROLL for (int i = 0; i < LANES; i++) {
                _mm_storel_epi64((__m128i *)(to + 2 * i * plane), r[i]);
                _mm_storeh_pd((double *)(to + (2 * i + 1) * plane), _mm_castsi128_pd(r[i]));
            }
        }
}

/* In bands of rows that fit into L1, since every map walks over them. */
static void backward2_weights(Workspace *ws, const float *pooled1, const uint8_t *choice,
                              const float *features_grad, float *bias_grad) {
    const Shape *s = &ws->shape;
    const ptrdiff_t row = s->columns1 * PIXEL, plane = s->pooled2_h * s->columns2;
    const ivec places = _mm256_setr_epi32(0, PIXEL, (int)row, (int)row + PIXEL, 0, 0, 0, 0);
    split_choices2(ws, choice);
    for (ptrdiff_t top = 0; top < s->pooled2_h; top += s->band2) {
        const ptrdiff_t first = top * s->columns2;
        const ptrdiff_t count = smaller(s->band2, s->pooled2_h - top) * s->columns2;
        for (ptrdiff_t map = 0; map < MAPS2; map++) {
            const LiveList live =
                collect_live(ws, ws->planar2 + map * plane + first, LANES, LANES,
                             positions_from(ws->positions2, first), count, places);
            bias_grad[map] += sum_kernel_rows(live, pooled1, row, features_grad + map,
                                              ws->conv2_grad + map * KERNEL2, TAPS * PIXEL, TAPS);
        }
    }
}

/* In bands, too. */
static void backward1_weights(Workspace *ws, const uint8_t *choice, float *bias_grad) {
    const Shape *s = &ws->shape;
    const ptrdiff_t C = s->channels, kernel_row = s->kernel_vecs * LANES;
    const ivec places = _mm256_setr_epi32(0, (int)C, (int)s->row_floats, (int)(s->row_floats + C),
                                          0, 0, 0, 0);
    const ptrdiff_t passes = (s->kernel_vecs + WIDEST_SUM - 1) / WIDEST_SUM;
    const ptrdiff_t row = 2 * s->tiles1;
    for (ptrdiff_t top = 0; top < s->pooled1_h; top += s->band1) {
        const ptrdiff_t first = top * row;
        const ptrdiff_t count = smaller(s->band1, s->pooled1_h - top) * row;
        for (ptrdiff_t map = 0; map < MAPS1; map++) {
            const LiveList live =
                collect_live(ws, choice + first * MAPS1 + map * 2 * LANES, 2 * LANES,
                             MAPS1 * 2 * LANES, positions_from(ws->positions1, first), count,
                             places);
            for (ptrdiff_t pass = 0; pass < passes; pass++) {
                const ptrdiff_t begin = pass * s->kernel_vecs / passes;
                const ptrdiff_t vecs = (pass + 1) * s->kernel_vecs / passes - begin;
                float *kernel_grad = ws->conv1_grad + map * TAPS * kernel_row + begin * LANES;
                const float total =
                    sum_kernel_rows(live, ws->input + begin * LANES, s->row_floats,
                                    ws->pooled1_grad + map, kernel_grad, kernel_row, vecs);
                if (pass == 0) bias_grad[map] += total;
            }
        }
    }
}

/* The sums of a chunk, in PyTorch's order, into the flat gradient. */
static void add_kernel_gradients(const Workspace *ws, float *gradient) {
    const Shape *s = &ws->shape;
    const ptrdiff_t C = s->channels;
    for (ptrdiff_t map = 0; map < MAPS1; map++)
        for (ptrdiff_t c = 0; c < C; c++)
            for (ptrdiff_t tap = 0; tap < TAPS * TAPS; tap++)
                gradient[s->conv1_w + (map * C + c) * TAPS * TAPS + tap] +=
                    ws->conv1_grad[(map * TAPS + tap / TAPS) * s->kernel_vecs * LANES +
                                   tap % TAPS * C + c];
    for (ptrdiff_t map = 0; map < MAPS2; map++)
        for (ptrdiff_t c = 0; c < MAPS1; c++)
            for (ptrdiff_t tap = 0; tap < TAPS * TAPS; tap++)
                gradient[s->conv2_w + (map * MAPS1 + c) * TAPS * TAPS + tap] +=
                    ws->conv2_grad[(map * TAPS * TAPS + tap) * PIXEL + c];
}

#endif
