/* Forward through both convolutions with their pools and ReLUs, one sample at a time. */
#ifndef FEDORBIT_CONV_FORWARD_H
#define FEDORBIT_CONV_FORWARD_H

#include "workspace.h"

/* ---- weights --------------------------------------------------------------------------------- */

static void prepare_kernels(Workspace *ws, const float *parameters) {
    const Shape *s = &ws->shape;
    const ptrdiff_t C = s->channels;
    float u[TILE_INPUTS];
    for (ptrdiff_t map = 0; map < MAPS1; map++)
        for (ptrdiff_t c = 0; c < C; c++)
            for (ptrdiff_t row = 0; row < TAPS; row++) {
                winograd_kernel(parameters + s->conv1_w + ((map * C + c) * TAPS + row) * TAPS, u);
                for (ptrdiff_t p = 0; p < TILE_INPUTS; p++)
                    ws->kernel1[((p * C + c) * TAPS + row) * MAPS1 + map] = u[p];
            }
    for (ptrdiff_t map = 0; map < MAPS2; map++)
        for (ptrdiff_t c = 0; c < MAPS1; c++)
            for (ptrdiff_t row = 0; row < TAPS; row++) {
                const float *taps =
                    parameters + s->conv2_w + ((map * MAPS1 + c) * TAPS + row) * TAPS;
                winograd_kernel(taps, u);
                for (ptrdiff_t p = 0; p < TILE_INPUTS; p++)
                    ws->kernel2[((p * TAPS + row) * MAPS1 + c) * MAPS2 + map] = u[p];
                float *inner = ws->kernel2_back + map * FRAMED + FRAMED_ROW + PIXEL;
                for (ptrdiff_t k = 0; k < TAPS; k++)
                    inner[row * FRAMED_ROW + k * PIXEL + c] = taps[k];
            }
}

/* ---- input ----------------------------------------------------------------------------------- */

/* Types of a pixel's values. */
enum { FLOATS, BYTES, WORDS };

static inline ptrdiff_t bytes_of(int32_t kind) {
    return kind == FLOATS ? (ptrdiff_t)sizeof(float) : kind == BYTES ? 1 : 2;
}

/* A view: orientation (bits: columns reversed, rows reversed, transposed before that), and how many
 * rows and columns further on in the image it begins; what lies outside repeats the edge. */
enum { ORIENTATION, ROWS_ON, COLUMNS_ON, VIEW };
enum { REVERSE_COLUMNS = 1, REVERSE_ROWS = 2, TRANSPOSE = 4 };

/* Where the rows or columns of a view begin in the image, in bytes. */
static void fill_offsets(int32_t *offsets, ptrdiff_t count, bool reverse, ptrdiff_t on,
                         ptrdiff_t stride) {
    for (ptrdiff_t i = 0; i < count; i++) {
        const ptrdiff_t at = (reverse ? count - 1 - i : i) + on;
        offsets[i] = (int32_t)(smaller(larger(at, 0), count - 1) * stride);
    }
}

TILE_FUNCTION void gather_pixels(Workspace *ws, const uint8_t *image, uint8_t *to,
                                 const ptrdiff_t pixel) {
    for (ptrdiff_t y = 0; y < ws->shape.height; y++) {
        const uint8_t *row = image + ws->view_rows[y];
        for (ptrdiff_t x = 0; x < ws->shape.width; x++, to += pixel)
            memcpy(to, row + ws->view_columns[x], (size_t)pixel);
    }
}

static bool is_plain(const int8_t *view) {
    return !view[ORIENTATION] && !view[ROWS_ON] && !view[COLUMNS_ON];
}

/* Writes the image of a view. Transposed ones must be square. */
static void write_view(Workspace *ws, const uint8_t *image, const int8_t *view, ptrdiff_t pixel,
                       uint8_t *to) {
    const Shape *s = &ws->shape;
    const int turn = view[ORIENTATION];
    const bool transpose = turn & TRANSPOSE;
    const ptrdiff_t row = s->width * pixel;
    fill_offsets(ws->view_rows, s->height, turn & REVERSE_ROWS,
                 view[transpose ? COLUMNS_ON : ROWS_ON], transpose ? pixel : row);
    fill_offsets(ws->view_columns, s->width, turn & REVERSE_COLUMNS,
                 view[transpose ? ROWS_ON : COLUMNS_ON], transpose ? row : pixel);
    switch (pixel) { /* copies of a constant size are a few instructions */
    case 1: gather_pixels(ws, image, to, 1); break;
    case 3: gather_pixels(ws, image, to, 3); break;
    case 4: gather_pixels(ws, image, to, 4); break;
    case 10: gather_pixels(ws, image, to, 10); break;
    case 12: gather_pixels(ws, image, to, 12); break;
    default: gather_pixels(ws, image, to, pixel);
    }
}

/* Eight values from `i` on, and one, as floats. */
TILE_FUNCTION vec load_values(const void *row, ptrdiff_t i, const int32_t kind) {
    if (kind == FLOATS) return _mm256_loadu_ps((const float *)row + i);
    if (kind == BYTES) return _mm256_cvtepi32_ps(load_bytes((const uint8_t *)row + i));
    const __m128i words = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)row + i));
    return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(words));
}

TILE_FUNCTION float load_value(const void *row, ptrdiff_t i, const int32_t kind) {
    if (kind == FLOATS) return ((const float *)row)[i];
    return kind == BYTES ? (float)((const uint8_t *)row)[i] : (float)((const uint16_t *)row)[i];
}

TILE_FUNCTION void standardise_rows(Workspace *ws, const void *image, const int32_t kind) {
    const Shape *s = &ws->shape;
    const ptrdiff_t values = s->width * s->channels;
    for (ptrdiff_t y = 0; y < s->height; y++) {
        float *to = ws->input + y * s->row_floats;
        const void *from = (const uint8_t *)image + y * values * bytes_of(kind);
        ptrdiff_t i = 0;
        for (; i + LANES <= values; i += LANES)
            _mm256_storeu_ps(to + i, _mm256_fmadd_ps(load_values(from, i, kind),
                                                     _mm256_loadu_ps(ws->scale + i),
                                                     _mm256_loadu_ps(ws->shift + i)));
        for (; i < values; i++)
            to[i] = __builtin_fmaf(load_value(from, i, kind), ws->scale[i], ws->shift[i]);
    }
}

/* input = image * scale + shift; `image` may end right after its last value. */
static void standardise(Workspace *ws, const void *image, int32_t kind) {
    if (kind == BYTES) standardise_rows(ws, image, BYTES);
    else if (kind == WORDS) standardise_rows(ws, image, WORDS);
    else standardise_rows(ws, image, FLOATS);
}

/* Rows of bytes with zeros behind them, so that vectors may read past a row's end. */
static void copy_bytes(Workspace *ws, const uint8_t *image) {
    const Shape *s = &ws->shape;
    const ptrdiff_t values = s->width * s->channels;
    for (ptrdiff_t y = 0; y < s->height; y++)
        memcpy(ws->bytes + y * s->row_bytes, image + y * values, (size_t)values);
}

/* ---- pooling --------------------------------------------------------------------------------- */

/* Without `keep`, the pools' choices, which only the backward pass reads, are not stored. */

/* Maximum of a 2 x 2 window, then bias and ReLU. Adding the bias and rounding keep the order, so
 * they may come after the maximum. A NaN survives: max(0, NaN) is its second operand. */
TILE_FUNCTION vec pool(const vec top[2], const vec bottom[2], vec bias, ivec *choice) {
    const vec right = _mm256_cmp_ps(top[1], top[0], _CMP_GT_OQ);
    vec best = _mm256_max_ps(top[1], top[0]);
    vec which = _mm256_and_ps(right, _mm256_castsi256_ps(_mm256_set1_epi32(1)));
    for (int i = 0; i < 2; i++) {
        const vec more = _mm256_cmp_ps(bottom[i], best, _CMP_GT_OQ);
        which = _mm256_blendv_ps(which, _mm256_castsi256_ps(_mm256_set1_epi32(2 + i)), more);
        best = _mm256_max_ps(bottom[i], best);
    }
    best = _mm256_add_ps(best, bias);
    const vec live = _mm256_cmp_ps(best, _mm256_setzero_ps(), _CMP_GT_OQ);
    which = _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_set1_epi32(DEAD)), which, live);
    *choice = _mm256_castps_si256(which);
    return _mm256_max_ps(_mm256_setzero_ps(), best);
}

/* ---- conv1 forward: lanes are Winograd tiles along a row ------------------------------------- */

/* Tile t reads pixels 4t .. 4t + 7. Phase j holds pixels 4t + j of all tiles, so a tile's last four
 * inputs are the first four of the next tile: the same phases, one lane further on. The lane after
 * the last vector matters only if its last tile is in use. */
static void split_phases(Workspace *ws, const float *row) {
    const Shape *s = &ws->shape;
    const ptrdiff_t step = TILE_OUTPUTS * s->channels, stride = s->tiles1 + LANES;
    for (ptrdiff_t tile = 0; tile < s->tiles1; tile += LANES)
        for (ptrdiff_t i = 0; i < step; i += LANES)
            transpose_block(row + tile * step + i, step, ws->phases + i * stride + tile, stride);
    if (s->full1)
        for (ptrdiff_t i = 0; i < step; i++)
            ws->phases[i * stride + s->tiles1] = row[s->tiles1 * step + i];
}

/* The same from bytes that are not standardised yet: a tile's are `channels` words of four bytes,
 * so only a quarter as much has to be transposed. */
static void split_phases_bytes(Workspace *ws, const uint8_t *row) {
    const Shape *s = &ws->shape;
    const ptrdiff_t step = TILE_OUTPUTS * s->channels, stride = s->tiles1 + LANES;
    for (ptrdiff_t tile = 0; tile < s->tiles1; tile += LANES)
        for (ptrdiff_t word = 0; word < s->channels; word += 4) {
            ivec words[4];
            transpose_words(row + tile * step + 4 * word, step, words);
            UNROLL for (int k = 0; k < 4; k++) {
                if (word + k >= s->channels) break;
                UNROLL for (int byte = 0; byte < 4; byte++) {
                    const ptrdiff_t i = 4 * (word + k) + byte;
                    const ivec x = _mm256_and_si256(_mm256_srli_epi32(words[k], 8 * byte),
                                                    _mm256_set1_epi32(255));
                    _mm256_store_ps(ws->phases + i * stride + tile,
                                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(x),
                                                    _mm256_broadcast_ss(ws->scale + i),
                                                    _mm256_broadcast_ss(ws->shift + i)));
                }
            }
        }
    if (s->full1)
        for (ptrdiff_t i = 0; i < step; i++)
            ws->phases[i * stride + s->tiles1] =
                __builtin_fmaf(row[s->tiles1 * step + i], ws->scale[i], ws->shift[i]);
}

static void transform_row1(Workspace *ws, ptrdiff_t y, bool bytes) {
    const Shape *s = &ws->shape;
    const ptrdiff_t stride = s->tiles1 + LANES;
    if (bytes) split_phases_bytes(ws, ws->bytes + y * s->row_bytes);
    else split_phases(ws, ws->input + y * s->row_floats);
    for (ptrdiff_t tile = 0; tile < s->tiles1; tile += LANES) {
        float *plane = ws->transformed1 + tile / LANES * TILE_INPUTS * s->plane1;
        for (ptrdiff_t c = 0; c < s->channels; c++) {
            vec d[TILE_INPUTS], u[TILE_INPUTS];
            UNROLL for (int j = 0; j < TILE_OUTPUTS; j++) {
                const float *phase = ws->phases + (j * s->channels + c) * stride + tile;
                d[j] = _mm256_load_ps(phase);
                d[j + TILE_OUTPUTS] = next_lane(d[j], _mm256_load_ps(phase + LANES));
            }
            winograd_input(d, u);
            float *to = plane + c * s->column1 + y * LANES;
            UNROLL for (int p = 0; p < TILE_INPUTS; p++)
                _mm256_storeu_ps(to + p * s->plane1, u[p]);
        }
    }
}

#define HALF1 (MAPS1 / 2)

/* Sums of half the maps for two neighbouring output rows, and where they are in `products`. */
typedef struct {
    vec of[2][HALF1];
} Sums1;

TILE_FUNCTION void clear1(Sums1 *sums) {
    UNROLL for (int i = 0; i < MAPS1; i++) sums->of[i / HALF1][i % HALF1] = _mm256_setzero_ps();
}

TILE_FUNCTION void store1(float *to, const Sums1 *sums) {
    UNROLL for (int i = 0; i < MAPS1; i++)
        _mm256_store_ps(to + (i / HALF1 * MAPS1 + i % HALF1) * LANES,
                        sums->of[i / HALF1][i % HALF1]);
}

TILE_FUNCTION void add_stored1(Sums1 *sums, const float *from) {
    UNROLL for (int i = 0; i < MAPS1; i++) {
        const vec stored = _mm256_load_ps(from + (i / HALF1 * MAPS1 + i % HALF1) * LANES);
        sums->of[i / HALF1][i % HALF1] = _mm256_add_ps(sums->of[i / HALF1][i % HALF1], stored);
    }
}

/* Adds one kernel row of one channel. */
TILE_FUNCTION void add_row1(Sums1 *sums, const float *rows, const float *weights, const int row) {
    const vec upper = _mm256_load_ps(rows + row * LANES);
    const vec lower = _mm256_load_ps(rows + (row + 1) * LANES);
    UNROLL for (int map = 0; map < HALF1; map++) {
        const vec w = _mm256_broadcast_ss(weights + row * MAPS1 + map);
        sums->of[0][map] = _mm256_fmadd_ps(upper, w, sums->of[0][map]);
        sums->of[1][map] = _mm256_fmadd_ps(lower, w, sums->of[1][map]);
    }
}

/* Adds channels of one product to the first half of the maps, and as many of the same or another
 * product to the second half. */
TILE_FUNCTION void add_channels1(const Workspace *ws, ptrdiff_t channels, Sums1 *sums_a,
                                 const float *rows_a, const float *weights_a, Sums1 *sums_b,
                                 const float *rows_b, const float *weights_b) {
    for (ptrdiff_t c = 0; c < channels; c++) {
        UNROLL for (int row = 0; row < TAPS; row++) {
            add_row1(sums_a, rows_a, weights_a, row);
            add_row1(sums_b, rows_b, weights_b + HALF1, row);
        }
        rows_a += ws->shape.column1, weights_a += TAPS * MAPS1;
        rows_b += ws->shape.column1, weights_b += TAPS * MAPS1;
    }
}

/* products[p][row][map] for two neighbouring output rows, eight tiles and all six maps.
 *
 * Twelve stores at the end of each product would hold up the next. So the second half of the maps
 * is always some channels behind the first. It begins with those channels of the last product, and
 * adds the others to what it stored of them in the end. */
static void multiply1(const Workspace *ws, const float *planes) {
    const Shape *s = &ws->shape;
    const ptrdiff_t behind = s->channels / 2, ahead = s->channels - behind;
    const ptrdiff_t taps = s->channels * TAPS * MAPS1, stride = 2 * MAPS1 * LANES;
    const float *rows = planes, *weights = ws->kernel1;
    const float *rows_before = planes + (TILE_INPUTS - 1) * s->plane1;
    const float *weights_before = ws->kernel1 + (TILE_INPUTS - 1) * taps;
    float *to = ws->products, *to_b = to + (TILE_INPUTS - 1) * stride + HALF1 * LANES;
    Sums1 a, b;
    clear1(&b);
    for (ptrdiff_t p = 0; p < TILE_INPUTS; p++) {
        clear1(&a);
        add_channels1(ws, behind, &a, rows, weights, &b, rows_before + ahead * s->column1,
                      weights_before + ahead * TAPS * MAPS1);
        store1(to_b, &b);
        clear1(&b);
        add_channels1(ws, ahead, &a, rows + behind * s->column1,
                      weights + behind * TAPS * MAPS1, &b, rows, weights);
        store1(to, &a);
        to_b = to + HALF1 * LANES, to += stride;
        rows_before = rows, rows += s->plane1;
        weights_before = weights, weights += taps;
    }
    add_stored1(&b, to_b);
    store1(to_b, &b);
}

TILE_FUNCTION void output_of(const float *products, ptrdiff_t stride, vec y[TILE_OUTPUTS]) {
    vec m[TILE_INPUTS];
    UNROLL for (int p = 0; p < TILE_INPUTS; p++) m[p] = _mm256_load_ps(products + p * stride);
    winograd_output(m, y);
}

/* Tiles -> two pooled pixels each, one with even and one with odd column number ("parity"). Pixels
 * past the last column are zero and dead. */
TILE_FUNCTION void pool1(const Workspace *ws, const float *bias, ptrdiff_t py, ptrdiff_t tile,
                         float *pooled, uint8_t *choice, const bool keep) {
    const Shape *s = &ws->shape;
    vec value[2][LANES];
    ivec which[2][2], inside[2];
    UNROLL for (int map = MAPS1; map < LANES; map++)
        value[0][map] = value[1][map] = _mm256_setzero_ps();
    UNROLL for (int parity = 0; parity < 2; parity++)
        inside[parity] = first_lanes((s->pooled1_w + 1 - parity) / 2 - tile);
    const ivec within = pack_bytes(inside[0], inside[1], inside[0], inside[1]);
    choice += (py * s->tiles1 + tile) * 2 * MAPS1;

    UNROLL for (int map = 0; map < MAPS1; map++) {
        vec top[TILE_OUTPUTS], bottom[TILE_OUTPUTS];
        output_of(ws->products + map * LANES, 2 * MAPS1 * LANES, top);
        output_of(ws->products + (MAPS1 + map) * LANES, 2 * MAPS1 * LANES, bottom);
        UNROLL for (int parity = 0; parity < 2; parity++)
            value[parity][map] =
                _mm256_and_ps(pool(top + 2 * parity, bottom + 2 * parity,
                                   _mm256_broadcast_ss(bias + map), &which[map % 2][parity]),
                              _mm256_castsi256_ps(inside[parity]));
        if (!keep || map % 2 == 0) continue;
        const ivec two_maps = pack_bytes(which[0][0], which[0][1], which[1][0], which[1][1]);
        _mm256_storeu_si256((__m256i *)(choice + (map - 1) * 2 * LANES),
                            _mm256_blendv_epi8(_mm256_set1_epi8(DEAD), two_maps, within));
    }
    UNROLL for (int parity = 0; parity < 2; parity++) {
        float *to = pooled + (py * s->columns1 + 2 * tile + parity) * PIXEL;
        transpose8(value[parity]);
        UNROLL for (int i = 0; i < LANES; i++)
            _mm256_store_ps(to + 2 * i * PIXEL, value[parity][i]);
    }
}

TILE_FUNCTION void forward1(Workspace *ws, bool bytes, const float *bias, float *pooled,
                            uint8_t *choice, const bool keep) {
    const Shape *s = &ws->shape;
    ptrdiff_t ready = 0; /* rows are transformed just before they are needed, while still in L1 */
    for (ptrdiff_t py = 0; py < s->pooled1_h; py++) {
        for (; ready < 2 * py + WINDOW_ROWS; ready++) transform_row1(ws, ready, bytes);
        for (ptrdiff_t tile = 0; tile < s->tiles1; tile += LANES) {
            const float *planes = ws->transformed1 + tile / LANES * TILE_INPUTS * s->plane1;
            multiply1(ws, planes + 2 * py * LANES);
            pool1(ws, bias, py, tile, pooled, choice, keep);
        }
    }
}

/* ---- conv2 forward: lanes are output maps ---------------------------------------------------- */

#define TILE_BLOCK 3 /* tiles x 2 rows x 2 vectors of maps = 12 sums in registers */

/* Lanes are the input's channels here. */
static void transform_row2(Workspace *ws, const float *pooled1, ptrdiff_t y) {
    const Shape *s = &ws->shape;
    const ptrdiff_t column = s->pooled1_h * PIXEL, plane = s->tiles2 * column;
    for (ptrdiff_t tile = 0; tile < s->tiles2; tile++) {
        const float *from = pooled1 + (y * s->columns1 + tile * TILE_OUTPUTS) * PIXEL;
        float *to = ws->transformed2 + tile * column + y * PIXEL;
        vec d[TILE_INPUTS], u[TILE_INPUTS];
        UNROLL for (int j = 0; j < TILE_INPUTS; j++) d[j] = _mm256_load_ps(from + j * PIXEL);
        winograd_input(d, u);
        UNROLL for (int p = 0; p < TILE_INPUTS; p++) _mm256_store_ps(to + p * plane, u[p]);
    }
}

/* products[p][tile][row][16 maps] for `tiles` tiles of two neighbouring output rows. */
TILE_FUNCTION void multiply2(const Workspace *ws, const float *columns, const int tiles) {
    const Shape *s = &ws->shape;
    const ptrdiff_t column = s->pooled1_h * PIXEL, plane = s->tiles2 * column;
    const float *weights = ws->kernel2;
    for (ptrdiff_t p = 0; p < TILE_INPUTS; p++, columns += plane) {
        vec sum[TILE_BLOCK][2][2];
        UNROLL for (int i = 0; i < 4 * tiles; i++)
            sum[i / 4][i / 2 % 2][i % 2] = _mm256_setzero_ps();
        const float *u[TILE_BLOCK];
        UNROLL for (int tile = 0; tile < tiles; tile++) u[tile] = columns + tile * column;
        for (int row = 0; row < TAPS; row++) {
            UNROLL for (int c = 0; c < MAPS1; c++, weights += MAPS2) {
                const vec w0 = _mm256_load_ps(weights), w1 = _mm256_load_ps(weights + LANES);
                UNROLL for (int i = 0; i < 2 * tiles; i++) {
                    const int tile = i / 2, below = i % 2;
                    const vec x = _mm256_broadcast_ss(u[tile] + below * PIXEL + c);
                    sum[tile][below][0] = _mm256_fmadd_ps(x, w0, sum[tile][below][0]);
                    sum[tile][below][1] = _mm256_fmadd_ps(x, w1, sum[tile][below][1]);
                }
            }
            UNROLL for (int tile = 0; tile < tiles; tile++) u[tile] = next_row(u[tile], PIXEL);
        }
        float *to = ws->products + p * TILE_BLOCK * 2 * MAPS2;
        UNROLL for (int i = 0; i < 4 * tiles; i++)
            _mm256_store_ps(to + i * LANES, sum[i / 4][i / 2 % 2][i % 2]);
    }
}

TILE_FUNCTION void pool2(const Workspace *ws, const float *bias, ptrdiff_t py, ptrdiff_t first,
                         ptrdiff_t tiles, float *features, uint8_t *choice, const bool keep) {
    const Shape *s = &ws->shape;
    const ptrdiff_t stride = TILE_BLOCK * 2 * MAPS2;
    for (ptrdiff_t tile = 0; tile < tiles; tile++) {
        const ptrdiff_t px = 2 * (first + tile), at = (py * s->pooled2_w + px) * MAPS2;
        const bool both = px + 1 < s->pooled2_w; /* the last tile of a row may have one pixel */
        ivec which[2][2];
        UNROLL for (int half = 0; half < 2; half++) {
            vec top[TILE_OUTPUTS], bottom[TILE_OUTPUTS];
            const float *products = ws->products + tile * 2 * MAPS2 + half * LANES;
            output_of(products, stride, top);
            output_of(products + MAPS2, stride, bottom);
            const vec b = _mm256_loadu_ps(bias + half * LANES);
            float *to = features + at + half * LANES;
            _mm256_storeu_ps(to, pool(top, bottom, b, &which[0][half]));
            const vec right = pool(top + 2, bottom + 2, b, &which[1][half]);
            if (both) _mm256_storeu_ps(to + MAPS2, right);
        }
        if (!keep) continue;
        const ivec choices = pack_bytes(which[0][0], which[0][1], which[1][0], which[1][1]);
        _mm_storeu_si128((__m128i *)(choice + at), _mm256_castsi256_si128(choices));
        if (both)
            _mm_storeu_si128((__m128i *)(choice + at + MAPS2),
                             _mm256_extracti128_si256(choices, 1));
    }
}

TILE_FUNCTION void forward2(Workspace *ws, const float *bias, const float *pooled1,
                            float *features, uint8_t *choice, const bool keep) {
    const Shape *s = &ws->shape;
    const ptrdiff_t column = s->pooled1_h * PIXEL;
    const ptrdiff_t blocks = (s->tiles2 + TILE_BLOCK - 1) / TILE_BLOCK;
    ptrdiff_t ready = 0;
    for (ptrdiff_t py = 0; py < s->pooled2_h; py++) {
        for (; ready < 2 * py + WINDOW_ROWS; ready++) transform_row2(ws, pooled1, ready);
        for (ptrdiff_t block = 0; block < blocks; block++) { /* of almost equal size */
            const ptrdiff_t tile = block * s->tiles2 / blocks;
            const ptrdiff_t tiles = (block + 1) * s->tiles2 / blocks - tile;
            const float *columns = ws->transformed2 + tile * column + 2 * py * PIXEL;
            switch (tiles) {
                case 1: multiply2(ws, columns, 1); break;
                case 2: multiply2(ws, columns, 2); break;
                default: multiply2(ws, columns, TILE_BLOCK); break;
            }
            pool2(ws, bias, py, tile, tiles, features, choice, keep);
        }
    }
}

#endif
