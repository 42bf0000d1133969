/* Sizes derived from the input shape, and the layout of a call's memory in one block. */
#ifndef FEDORBIT_WORKSPACE_H
#define FEDORBIT_WORKSPACE_H

#include <stdbool.h>
#include <string.h>

#include "simd.h"
#include "winograd.h"

#define MAPS1 6    /* output channels of conv1 */
#define MAPS2 16   /* output channels of conv2: two vectors */
#define HIDDEN1 120
#define HIDDEN2 84
#define PIXEL LANES  /* a pixel of conv1's pooled output: six channels and two zeros, one vector */
#define CHUNK 64     /* samples that go through the network together */
#define PANEL (2 * LANES) /* columns of one packed panel of a matrix product */
#define DEPTH_BLOCK 256   /* rows of one packed panel: 16 KiB, half of L1 */
#define INPUT_VECS 12 /* inputs of fc1 whose gradients are computed together, in vectors ... */
#define INPUT_BLOCK (INPUT_VECS * LANES) /* ... and in floats; a multiple of PANEL */
#define HIDDEN1_BLOCKS ((HIDDEN1 + CHUNK - 1) / CHUNK) /* of rows that fit into L1 together */
#define WINDOW_ROWS (TAPS + 1) /* input rows under two output rows, which is one pooled row */
#define WINDOW_COLUMNS (TAPS + 1) /* the same across */
#define KERNEL2 (TAPS * TAPS * PIXEL) /* one map's conv2 kernel, laid out like the input */
/* ... with zeros around it, so that it can be read one pixel off in any direction. The zeros are
 * shared: one pixel between rows, one row between maps, and a little more at either end. */
#define FRAMED_ROW ((TAPS + 1) * PIXEL)
#define FRAMED ((TAPS + 1) * FRAMED_ROW)
#define FRAMED_ALL (MAPS2 * FRAMED + FRAMED_ROW + PIXEL)

/* What is kept of a pool: which of its four values was the maximum, in row-major order, or that no
 * gradient passes because the ReLU after it is off. */
#define DEAD 4

#define ALIGNMENT 64
#define BAND_BYTES (24 * 1024) /* of input rows that a backward pass keeps in L1 */

typedef struct {
    ptrdiff_t height, width, channels, classes;
    ptrdiff_t pooled1_h, pooled1_w;  /* after conv1 and its pool */
    ptrdiff_t pooled2_h, pooled2_w;  /* after conv2 and its pool */
    ptrdiff_t features;              /* inputs of fc1 */

    ptrdiff_t row_floats;   /* one row of the standardised input in memory */
    ptrdiff_t row_bytes;    /* the same of an image of bytes */
    ptrdiff_t tiles1;       /* Winograd tiles in a row of conv1, rounded up to whole vectors */
    bool full1;             /* whether the last of these is in use */
    ptrdiff_t column1;      /* floats in one channel of conv1's transformed input, ... */
    ptrdiff_t plane1;       /* ... and in all of them */
    ptrdiff_t kernel_vecs;  /* vectors that cover one kernel row of conv1 (5 pixels) */
    ptrdiff_t columns1;     /* pixels in a row of conv1's pooled output in memory */
    ptrdiff_t tiles2;       /* Winograd tiles in a row of conv2 */
    ptrdiff_t columns2;     /* bytes in a planar row of conv2's choices */
    ptrdiff_t band1, band2; /* pooled rows per band of the backward passes */
    ptrdiff_t spread_room;  /* live maps in a column of conv2's pooled outputs, at most */

    /* Where each block starts in the flat parameter vector (PyTorch's order). */
    ptrdiff_t conv1_w, conv1_b, conv2_w, conv2_b, fc1_w, fc1_b, fc2_w, fc2_b, fc3_w, fc3_b;
    ptrdiff_t parameters;
} Shape;

/* Which inputs of a convolution get a gradient through its pool, for one output map. */
typedef struct {
    int32_t *window;    /* offset of the 5 x 5 window in the convolution's input */
    int32_t *gradient;  /* offset of the gradient that flows into it */
    ptrdiff_t count;
} LiveList;

/* The same offsets for every choice of a map, dead or alive, with the maximum at the top left; the
 * gradient's is that of map 0. */
typedef struct {
    int32_t *window, *gradient;
} Positions;

static inline Positions positions_from(Positions all, ptrdiff_t first) {
    return (Positions){all.window + first, all.gradient + first};
}

/* What is not zero in a row of a matrix. */
typedef struct {
    int32_t *place; /* where the row begins that it multiplies */
    float *value;
    ptrdiff_t count;
} LiveRow;

typedef struct {
    Shape shape;
    ptrdiff_t chunk; /* samples there is room for, and row length where each has a column */

    /* Weights as the convolutions read them, renewed before every gradient. */
    float *kernel1;       /* [8 products][C][5 rows][6 maps] */
    float *kernel2;       /* [8 products][5 rows][6][16 maps] */
    float *kernel2_back;  /* [16 maps][6][6][8] with zeros between */

    /* Scratch for one sample. */
    int32_t *view_rows, *view_columns; /* [height], [width]: offsets of what a view shows */
    float *scale, *shift;   /* [width * C]: per-channel standardisation, written out for a row */
    float *input;           /* [height][row_floats], HWC */
    uint8_t *bytes;         /* [height][row_bytes], HWC, not standardised */
    float *phases;          /* one input row as [4 phases][C][tiles1 + 8] */
    float *transformed1;    /* [vectors of tiles][8 products][C][height][8 tiles] */
    float *transformed2;    /* [8 products][tiles2][pooled1_h][8 channels] */
    float *products;        /* one block of sums before the output transform */
    float *pooled1_grad;    /* [pooled1_h][columns1][8] */
    uint8_t *planar2;       /* [16 maps][pooled2_h][columns2]: choice2 of one sample */
    Positions positions1;   /* [pooled1_h][vectors of tiles][2 parities][8 tiles] */
    Positions positions2;   /* [pooled2_h][columns2] */
    LiveList live;
    /* The same for the input of conv2, for each column of its pooled outputs: where the framed
     * kernels of live maps start for the first input row, their gradients, and where each row's
     * part ends. */
    int32_t *spread_start;   /* [pooled2_w][spread_room] */
    float *spread_gradient;  /* [pooled2_w][spread_room] */
    int32_t *spread_end;     /* [pooled2_w][pooled2_h] */
    uint64_t *compress;     /* [256]: lane order that moves the set lanes of a mask to the front */

    /* Kept for every sample of the chunk from the forward to the backward pass. */
    uint8_t *seen;     /* [chunk][height][width][C] of the images' type: what views show */
    float *pooled1;    /* [chunk][pooled1_h][columns1][8] */
    uint8_t *choice1;  /* [chunk][pooled1_h][vectors of tiles][6 maps][2 parities][8] */
    uint8_t *choice2;  /* [chunk][pooled2_h][pooled2_w][16 maps] */
    float *features;   /* [chunk][features] */
    float *features_grad;

    /* Gradients of the convolutions, laid out like the inputs (kernel rows in whole vectors). */
    float *conv1_grad;  /* [6 maps][5][kernel_vecs * 8] */
    float *conv2_grad;  /* [16 maps][5][5][8] */

    /* Fully connected part, one column per sample. */
    float *packed;                       /* panels of one operand of a product */
    float *hidden1, *hidden2, *logits;   /* [units][chunk] */
    float *hidden1_grad, *hidden2_grad;
    float *hidden1_rows, *hidden2_rows;  /* [chunk][units rounded up]: transposed for gradients */
    LiveRow *unit_live;    /* [120]: hidden1_grad by rows */
    LiveRow *sample_live;  /* [chunk][HIDDEN1_BLOCKS]: hidden1_grad by columns */
} Workspace;

static inline ptrdiff_t after_conv_and_pool(ptrdiff_t size) { return (size - (TAPS - 1)) / 2; }

/* Pooled rows whose input rows, of so many floats each, fit into a part of L1. */
static inline ptrdiff_t band_of(ptrdiff_t row_floats, ptrdiff_t pooled_rows) {
    const ptrdiff_t rows = BAND_BYTES / (row_floats * (ptrdiff_t)sizeof(float));
    const ptrdiff_t most = larger(1, (rows - (TAPS - 1)) / 2);
    const ptrdiff_t bands = (pooled_rows + most - 1) / most;
    return (pooled_rows + bands - 1) / bands; /* of almost equal size */
}

static inline Shape make_shape(int32_t height, int32_t width, int32_t channels, int32_t classes) {
    Shape s = {.height = height, .width = width, .channels = channels, .classes = classes};
    s.pooled1_h = after_conv_and_pool(s.height);
    s.pooled1_w = after_conv_and_pool(s.width);
    s.pooled2_h = after_conv_and_pool(s.pooled1_h);
    s.pooled2_w = after_conv_and_pool(s.pooled1_w);
    s.features = s.pooled2_h * s.pooled2_w * MAPS2;

    /* A tile of four outputs is two pooled ones. Its inputs reach one tile further, and vector
     * loads read up to one vector past the last pixel. */
    s.tiles1 = round_up((s.pooled1_w + 1) / 2, LANES);
    const ptrdiff_t tiled = TILE_OUTPUTS * (s.tiles1 + 1);
    s.row_floats = round_up(larger(tiled, s.width) * s.channels + LANES, LANES);
    s.row_bytes = round_up(larger(tiled, s.width) * s.channels + (ptrdiff_t)sizeof(__m128i), LANES);
    s.full1 = (s.pooled1_w + 1) / 2 == s.tiles1;
    s.kernel_vecs = (TAPS * s.channels + LANES - 1) / LANES;
    /* Channels and products are read in parallel, a window of rows at a time: the spare rows keep
     * the windows in different sets of L1. */
    s.column1 = (s.height + WINDOW_ROWS) * LANES;
    s.plane1 = s.channels * s.column1 + WINDOW_ROWS * LANES;
    s.tiles2 = (s.pooled2_w + 1) / 2;
    s.columns1 = larger(2 * s.tiles1, TILE_OUTPUTS * (s.tiles2 + 1));
    s.columns2 = round_up(s.pooled2_w, LANES);
    s.spread_room = s.pooled2_h * MAPS2 + LANES; /* compressed stores write whole vectors */
    s.band1 = band_of(s.row_floats, s.pooled1_h);
    s.band2 = band_of(s.columns1 * PIXEL, s.pooled2_h);

    ptrdiff_t at = 0;
    s.conv1_w = at, at += MAPS1 * s.channels * TAPS * TAPS;
    s.conv1_b = at, at += MAPS1;
    s.conv2_w = at, at += MAPS2 * MAPS1 * TAPS * TAPS;
    s.conv2_b = at, at += MAPS2;
    s.fc1_w = at, at += HIDDEN1 * s.features;
    s.fc1_b = at, at += HIDDEN1;
    s.fc2_w = at, at += HIDDEN2 * HIDDEN1;
    s.fc2_b = at, at += HIDDEN2;
    s.fc3_w = at, at += s.classes * HIDDEN2;
    s.fc3_b = at, at += s.classes;
    s.parameters = at;
    return s;
}

/* Under AddressSanitizer, pieces of a block get a gap between them that must not be touched. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define GAP ALIGNMENT
#else
#define GAP 0
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/* Hands out aligned pieces of a block; with base == NULL it only measures. */
typedef struct {
    char *base;
    size_t used;
} Arena;

static inline void *carve(Arena *arena, ptrdiff_t count, size_t item) {
    const size_t size = (size_t)count * item;
    const size_t room = (size + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *piece = arena->base ? arena->base + arena->used : NULL;
    if (piece) ASAN_POISON_MEMORY_REGION(piece + size, room - size);
    arena->used += room;
    return piece;
}

static inline float *carve_floats(Arena *arena, ptrdiff_t count) {
    return carve(arena, count, sizeof(float));
}

static inline Positions carve_positions(Arena *arena, ptrdiff_t count) {
    int32_t *window = carve(arena, count, sizeof(int32_t));
    return (Positions){window, carve(arena, count, sizeof(int32_t))};
}

/* Lists of up to CHUNK entries; compressed stores write whole vectors, so they have a spare one. */
static inline LiveRow *carve_live_rows(Arena *arena, ptrdiff_t count) {
    const ptrdiff_t room = CHUNK + LANES;
    LiveRow *rows = carve(arena, count, sizeof(LiveRow));
    int32_t *places = carve(arena, count * room, sizeof(int32_t));
    float *values = carve_floats(arena, count * room);
    for (ptrdiff_t i = 0; rows && i < count; i++)
        rows[i] = (LiveRow){.place = places + i * room, .value = values + i * room};
    return rows;
}

static inline ptrdiff_t pooled1_floats(const Shape *s) {
    return s->pooled1_h * s->columns1 * PIXEL;
}
static inline ptrdiff_t choice1_bytes(const Shape *s) {
    return MAPS1 * s->pooled1_h * 2 * s->tiles1;
}

static inline void lay_out(Workspace *ws, Arena *arena) {
    const Shape *s = &ws->shape;
    const ptrdiff_t chunk = ws->chunk;
    ws->kernel1 = carve_floats(arena, TILE_INPUTS * TAPS * s->channels * MAPS1);
    ws->kernel2 = carve_floats(arena, TILE_INPUTS * TAPS * MAPS1 * MAPS2);
    ws->kernel2_back = carve_floats(arena, FRAMED_ALL);

    ws->view_rows = carve(arena, s->height, sizeof(int32_t));
    ws->view_columns = carve(arena, s->width, sizeof(int32_t));
    ws->scale = carve_floats(arena, s->width * s->channels);
    ws->shift = carve_floats(arena, s->width * s->channels);
    ws->input = carve_floats(arena, s->height * s->row_floats);
    ws->bytes = carve(arena, s->height * s->row_bytes, 1);
    const ptrdiff_t phases = round_up(TILE_OUTPUTS * s->channels, LANES);
    ws->phases = carve_floats(arena, phases * (s->tiles1 + LANES));
    ws->transformed1 = carve_floats(arena, s->tiles1 / LANES * TILE_INPUTS * s->plane1);
    ws->transformed2 = carve_floats(arena, TILE_INPUTS * s->tiles2 * s->pooled1_h * PIXEL);
    ws->products = carve_floats(arena, TILE_INPUTS * 2 * MAPS1 * LANES);
    ws->pooled1_grad = carve_floats(arena, pooled1_floats(s));
    ws->planar2 = carve(arena, MAPS2 * s->pooled2_h * s->columns2, 1);
    ws->positions1 = carve_positions(arena, s->pooled1_h * 2 * s->tiles1);
    ws->positions2 = carve_positions(arena, s->pooled2_h * s->columns2);
    /* Compressed stores write whole vectors, so the lists have a spare one. */
    const ptrdiff_t live = larger(s->band1 * 2 * s->tiles1, s->band2 * s->columns2) + LANES;
    ws->live.window = carve(arena, live, sizeof(int32_t));
    ws->live.gradient = carve(arena, live, sizeof(int32_t));
    ws->spread_start = carve(arena, s->pooled2_w * s->spread_room, sizeof(int32_t));
    ws->spread_gradient = carve_floats(arena, s->pooled2_w * s->spread_room);
    ws->spread_end = carve(arena, s->pooled2_w * s->pooled2_h, sizeof(int32_t));
    ws->compress = carve(arena, 1 << LANES, sizeof(uint64_t));

    ws->seen = carve(arena, chunk * s->height * s->width * s->channels, sizeof(float));
    ws->pooled1 = carve_floats(arena, chunk * pooled1_floats(s));
    ws->choice1 = carve(arena, chunk * choice1_bytes(s), 1);
    ws->choice2 = carve(arena, chunk * s->features, 1);
    ws->features = carve_floats(arena, chunk * s->features);
    ws->features_grad = carve_floats(arena, chunk * s->features);

    ws->conv1_grad = carve_floats(arena, MAPS1 * TAPS * s->kernel_vecs * LANES);
    ws->conv2_grad = carve_floats(arena, MAPS2 * KERNEL2);

    ws->packed = carve_floats(arena, larger(DEPTH_BLOCK * PANEL, CHUNK * INPUT_BLOCK));
    ws->hidden1 = carve_floats(arena, HIDDEN1 * chunk);
    ws->hidden2 = carve_floats(arena, round_up(HIDDEN2, LANES) * chunk);
    ws->logits = carve_floats(arena, s->classes * chunk);
    ws->hidden1_grad = carve_floats(arena, HIDDEN1 * chunk);
    ws->hidden2_grad = carve_floats(arena, HIDDEN2 * chunk);
    ws->hidden1_rows = carve_floats(arena, chunk * HIDDEN1);
    ws->hidden2_rows = carve_floats(arena, chunk * round_up(HIDDEN2, LANES));
    ws->unit_live = carve_live_rows(arena, HIDDEN1);
    ws->sample_live = carve_live_rows(arena, chunk * HIDDEN1_BLOCKS);
}

/* Samples that go through together, of so many in a batch; whole vectors of them. */
static inline ptrdiff_t chunk_for(ptrdiff_t samples) {
    return round_up(larger(1, smaller(samples, CHUNK)), LANES);
}

/* compress[mask], byte k: which lane is the k-th set one. */
static inline void fill_compress_table(uint64_t table[1 << LANES]) {
    for (unsigned mask = 0; mask < 1u << LANES; mask++) {
        uint64_t order = 0;
        int found = 0;
        for (uint64_t lane = 0; lane < LANES; lane++)
            if (mask >> lane & 1) order |= lane << (8 * found++);
        table[mask] = order;
    }
}

static inline void fill_positions(Workspace *ws) {
    const Shape *s = &ws->shape;
    for (ptrdiff_t py = 0; py < s->pooled1_h; py++)
        for (ptrdiff_t i = 0; i < 2 * s->tiles1; i++) {
            const ptrdiff_t tile = i / (2 * LANES) * LANES + i % LANES, parity = i / LANES % 2;
            const ptrdiff_t px = 2 * tile + parity, at = py * 2 * s->tiles1 + i;
            ws->positions1.window[at] = (int32_t)(2 * py * s->row_floats + 2 * px * s->channels);
            ws->positions1.gradient[at] = (int32_t)((py * s->columns1 + px) * PIXEL);
        }
    for (ptrdiff_t py = 0; py < s->pooled2_h; py++)
        for (ptrdiff_t px = 0; px < s->columns2; px++) {
            const ptrdiff_t at = py * s->columns2 + px;
            ws->positions2.window[at] = (int32_t)((2 * py * s->columns1 + 2 * px) * PIXEL);
            ws->positions2.gradient[at] = (int32_t)((py * s->pooled2_w + px) * MAPS2);
        }
}

/* The workspace itself is the first piece of its block. */
static inline Arena measure(Workspace *ws, Shape shape, ptrdiff_t samples) {
    *ws = (Workspace){.shape = shape, .chunk = chunk_for(samples)};
    Arena arena = {0};
    carve(&arena, 1, sizeof(Workspace));
    lay_out(ws, &arena);
    return arena;
}

static inline size_t workspace_bytes(Shape shape, ptrdiff_t samples) {
    Workspace ws;
    return measure(&ws, shape, samples).used;
}

/* Lays out a workspace in a block that was zero once and has since served only workspaces of the
 * same size: whatever must be zero, which is padding, then still is. */
static inline Workspace *workspace_in(void *block, Shape shape, ptrdiff_t samples) {
    Workspace *ws = block;
    measure(ws, shape, samples);
    Arena arena = {.base = block};
    carve(&arena, 1, sizeof(Workspace));
    lay_out(ws, &arena);
    fill_compress_table(ws->compress);
    fill_positions(ws);
    return ws;
}

#endif
