/* Local training of LeNet on the CPU: whole epochs of SGD in one call, with AVX2 and FMA.
 *
 * The network, for images [height, width, C] and K classes:
 *     conv1 5x5 C -> 6, max-pool 2, ReLU, conv2 5x5 6 -> 16, max-pool 2, ReLU,
 *     flatten in (row, column, map) order, fc1 -> 120 ReLU, fc2 -> 84 ReLU, fc3 -> K.
 *
 * Plan. Parameters and gradients are flat vectors in PyTorch's order throughout, so that the update
 * rules are plain loops over vectors; the few thousand weights of the convolutions are brought into
 * their working layouts before each gradient (prepare_kernels). A batch goes through in chunks of
 * at most CHUNK samples, whose gradients add up:
 *
 *   1. conv_forward.h, sample by sample, so that activations stay in L1 and L2: convolutions as
 *      one-dimensional Winograd (winograd.h) with bias, pool and ReLU fused behind them. Kept for
 *      later: pooled values, and one byte per pooled value that says which of the four inputs won,
 *      or that the ReLU is off.
 *   2. dense.h, all samples of the chunk at once: fc1..fc3, loss and their gradients as blocked
 *      matrix products, except fc1's gradients: sums along lists of what the ReLU left (live.h).
 *   3. conv_backward.h, sample by sample: at most a quarter of a convolution's outputs have a
 *      gradient, and many of those are dead, so the live ones are collected into lists, and kernels
 *      and windows are added up along the lists. conv1 needs no input gradient. The image is
 *      standardised again, which is cheaper than keeping it.
 *
 * Two observations on AMD's Zen 3 shape the inner loops. Multiplications whose address was loaded
 * in the same iteration run at two thirds of the speed, so lists are read one entry ahead. And a
 * dozen stores in a row of values that are still being computed delay what comes behind them, so
 * conv1 stores its sums six at a time, and choices of several maps together.
 *
 * conv1 has few maps and long rows: its lanes are Winograd tiles along a row, and its input is
 * split into planes. conv2 has 16 maps: its lanes are maps, and its input is HWC with six channels
 * padded to one vector per pixel. workspace.h says how everything lies in memory.
 *
 * A call runs on one thread, in memory that its caller lends and that no other call uses meanwhile
 * (lenet_workspace_bytes, lenet_scratch_bytes, lenet_apfl_scratch_bytes). Sums have a fixed order. A result depends on the
 * arguments only.
 *
 * Pool ties: the first maximum in row-major order wins. Values that are equal in exact arithmetic
 * may differ in the last bit after Winograd; of those, any may win.
 */
#include "conv_backward.h"
#include "conv_forward.h"
#include "dense.h"

#define EXPORT __attribute__((visibility("default")))

enum { DONE = 0, CANCELLED = 1 };

/* Grows with every change of what the binding sees: it refuses a library of other sources. */
enum { INTERFACE = 4 };

/* The binding mirrors these structures field by field. */
typedef struct {
    int32_t height, width, channels, classes;
} LenetInput;

typedef struct {
    const void *images; /* [n][height][width][channels] */
    int32_t kind;       /* of the images: FLOATS, BYTES or WORDS */
    const int64_t *labels;
    const float *scale, *shift; /* per channel */
    const float *offset;        /* NULL, or added to the logits of each class */
} LenetData;

typedef struct {
    void *workspace; /* lenet_workspace_bytes(...), zero before its first use for this size */
    float *scratch;  /* lenet_scratch_bytes(...), any content */
} LenetMemory;

typedef struct {
    const int64_t *order; /* [epochs][samples] */
    const int8_t *views;  /* NULL, or [epochs][samples][VIEW]: how each sample is seen */
    int64_t epochs, samples, batch;
    float rate, momentum, weight_decay;
    float clip_norm;             /* <= 0: no clipping */
    const volatile int32_t *cancel; /* NULL, or polled once per batch */
} LenetSchedule;

/* The parameters that move: those of [begin, end) and, with a mask, of these only those whose byte
 * is 1. */
typedef struct {
    int64_t begin, end;
    const uint8_t *mask; /* NULL, or a byte per parameter, 0 or 1 */
} LenetPart;

/* What is done with a batch besides SGD. Zeros and one repeat: nothing. */
typedef struct {
    float *anchor; /* NULL, or where the parameters are pulled to; written if follow is not 0 */
    const float *correction; /* NULL, or added to each gradient */
    int64_t repeats;         /* steps with each batch, at least 1 */
    float pull;
    float follow; /* after each batch, anchor += follow (parameters - anchor) */
    float ahead;  /* 0, or the rate of a step to where the gradient is taken */
    float radius; /* 0, or how far the differences reach that stand for the Hessian */
} LenetRule;

/* ---- CPU check ------------------------------------------------------------------------------- */

/* Runs on CPUs without AVX, so it must not be compiled for them. */
EXPORT __attribute__((target("no-avx"))) int lenet_supported(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

EXPORT int lenet_interface(void) { return INTERFACE; }

/* ---- sizes ----------------------------------------------------------------------------------- */

static Shape shape_of(const LenetInput *in) {
    return make_shape(in->height, in->width, in->channels, in->classes);
}

EXPORT int64_t lenet_parameters(const LenetInput *in) { return shape_of(in).parameters; }

/* For batches of so many samples; both blocks must be aligned to ALIGNMENT bytes. */
EXPORT int64_t lenet_workspace_bytes(const LenetInput *in, int64_t batch) {
    return (int64_t)workspace_bytes(shape_of(in), batch);
}

/* Vectors of parameters that training needs, each aligned. */
enum { GRADIENT, VELOCITY, PLAIN_VECTORS };
enum { POINT = PLAIN_VECTORS, AHEAD_VECTORS };
enum { FORWARD_GRADIENT = AHEAD_VECTORS, BACKWARD_GRADIENT, HESSIAN_VECTORS };
enum { MIXED = PLAIN_VECTORS, MIXED_GRADIENT, MIXED_VELOCITY, APFL_VECTORS };

static ptrdiff_t vector_floats(const Shape *shape) {
    return round_up(shape->parameters, ALIGNMENT / (ptrdiff_t)sizeof(float));
}

static int64_t scratch_bytes(const LenetInput *in, ptrdiff_t vectors) {
    const Shape shape = shape_of(in);
    return vectors * vector_floats(&shape) * (int64_t)sizeof(float);
}

EXPORT int64_t lenet_scratch_bytes(const LenetInput *in, const LenetRule *rule) {
    if (rule->ahead == 0) return scratch_bytes(in, PLAIN_VECTORS);
    return scratch_bytes(in, rule->radius == 0 ? AHEAD_VECTORS : HESSIAN_VECTORS);
}

EXPORT int64_t lenet_apfl_scratch_bytes(const LenetInput *in) {
    return scratch_bytes(in, APFL_VECTORS);
}

/* ---- gradient of a batch --------------------------------------------------------------------- */

static void set_standardisation(Workspace *ws, const LenetData *data) {
    for (ptrdiff_t i = 0; i < ws->shape.width * ws->shape.channels; i++) {
        ws->scale[i] = data->scale[i % ws->shape.channels];
        ws->shift[i] = data->shift[i % ws->shape.channels];
    }
}

/* Samples that go through the network together, and how each is seen. */
typedef struct {
    const int64_t *indices;
    const int8_t *views; /* NULL: as they are */
    ptrdiff_t size;
} Batch;

static Batch batch_from(Batch batch, ptrdiff_t first, ptrdiff_t size) {
    const int8_t *views = batch.views ? batch.views + first * VIEW : NULL;
    return (Batch){batch.indices + first, views, size};
}

/* A sample's image as it lies in memory, or as its view shows it, which is written once. */
static const void *image_of(Workspace *ws, const LenetData *data, Batch batch, ptrdiff_t sample,
                            bool is_written) {
    const Shape *s = &ws->shape;
    const ptrdiff_t pixel = s->channels * bytes_of(data->kind);
    const ptrdiff_t bytes = s->height * s->width * pixel;
    const uint8_t *image = (const uint8_t *)data->images + batch.indices[sample] * bytes;
    const int8_t *view = batch.views ? batch.views + sample * VIEW : NULL;
    if (!view || is_plain(view)) return image;
    uint8_t *seen = ws->seen + sample * bytes;
    if (!is_written) write_view(ws, image, view, pixel, seen);
    return seen;
}

/* Without a backward pass to come, conv1's output of all samples lies in one place, which stays in
 * L1 and L2. */
TILE_FUNCTION void forward(Workspace *ws, const LenetData *data, Batch batch,
                           const float *parameters, const bool keep) {
    const Shape *s = &ws->shape;
    const bool bytes = data->kind == BYTES;
    for (ptrdiff_t i = 0; i < batch.size; i++) {
        float *pooled1 = ws->pooled1 + (keep ? i : 0) * pooled1_floats(s);
        const void *image = image_of(ws, data, batch, i, false);
        if (bytes) copy_bytes(ws, image);
        else standardise(ws, image, data->kind);
        forward1(ws, bytes, parameters + s->conv1_b, pooled1,
                 ws->choice1 + i * choice1_bytes(s), keep);
        forward2(ws, parameters + s->conv2_b, pooled1, ws->features + i * s->features,
                 ws->choice2 + i * s->features, keep);
    }
    dense_forward(ws, parameters);
    if (data->offset) add_bias(ws, ws->logits, data->offset, s->classes, false);
}

static void clear_columns(Workspace *ws, ptrdiff_t first) {
    for (ptrdiff_t k = 0; k < ws->shape.classes; k++)
        for (ptrdiff_t j = first; j < ws->chunk; j++) ws->logits[k * ws->chunk + j] = 0;
}

/* Gradients of conv2 and, where they are asked for, of conv1. */
static void convolutions_backward(Workspace *ws, const LenetData *data, Batch batch,
                                  float *gradient, bool conv1) {
    const Shape *s = &ws->shape;
    memset(ws->conv1_grad, 0, sizeof(float) * (size_t)(MAPS1 * TAPS * s->kernel_vecs * LANES));
    memset(ws->conv2_grad, 0, sizeof(float) * MAPS2 * KERNEL2);
    for (ptrdiff_t i = 0; i < batch.size; i++) {
        if (conv1) standardise(ws, image_of(ws, data, batch, i, true), data->kind);
        const uint8_t *choice2 = ws->choice2 + i * s->features;
        const float *features_grad = ws->features_grad + i * s->features;
        backward2_weights(ws, ws->pooled1 + i * pooled1_floats(s), choice2, features_grad,
                          gradient + s->conv2_b);
        if (!conv1) continue;
        backward2_input(ws, choice2, features_grad);
        backward1_weights(ws, ws->choice1 + i * choice1_bytes(s), gradient + s->conv1_b);
    }
    add_kernel_gradients(ws, gradient);
}

/* gradient = that of the mean loss over the batch; returns the sum of losses. The backward pass
 * ends at the layer of the parameter `begin`: gradients of the layers before it are not computed,
 * and what stands in their place means nothing. */
static double batch_gradient(Workspace *ws, const LenetData *data, Batch batch,
                             const float *parameters, float *gradient, ptrdiff_t begin) {
    const Shape *s = &ws->shape;
    const float weight = 1.0f / (float)batch.size;
    double loss = 0;
    prepare_kernels(ws, parameters);
    memset(gradient, 0, sizeof(float) * (size_t)s->fc1_w); /* the convolutions always add */
    for (ptrdiff_t first = 0; first < batch.size; first += ws->chunk) {
        const Batch chunk = batch_from(batch, first, smaller(batch.size - first, ws->chunk));
        if (begin < s->fc1_w) forward(ws, data, chunk, parameters, true);
        else forward(ws, data, chunk, parameters, false);
        for (ptrdiff_t i = 0; i < chunk.size; i++)
            loss += loss_gradient(ws, i, data->labels[chunk.indices[i]], weight);
        clear_columns(ws, chunk.size);
        dense_backward(ws, parameters, chunk.size, gradient, first > 0, begin);
        if (begin < s->fc1_w)
            convolutions_backward(ws, data, chunk, gradient, begin < s->conv2_w);
    }
    return loss;
}

/* ---- vectors of parameters ------------------------------------------------------------------- */

#define SUM_BLOCK 4096 /* floats summed in single precision before the total takes over in double */

static double dot(const float *a, const float *b, ptrdiff_t n) {
    double total = 0;
    for (ptrdiff_t start = 0; start < n; start += SUM_BLOCK) {
        const ptrdiff_t end = smaller(n, start + SUM_BLOCK);
        vec sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                      _mm256_setzero_ps()};
        ptrdiff_t i = start;
        for (; i + 4 * LANES <= end; i += 4 * LANES)
            UNROLL for (int v = 0; v < 4; v++)
                sum[v] = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + v * LANES),
                                         _mm256_loadu_ps(b + i + v * LANES), sum[v]);
        total += sum_lanes(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]),
                                         _mm256_add_ps(sum[2], sum[3])));
        for (; i < end; i++) total += (double)a[i] * b[i];
    }
    return total;
}

/* Factor that brings the gradient's norm down to clip_norm; a NaN stays one. */
static float clip_factor(const float *gradient, ptrdiff_t n, float clip_norm) {
    if (clip_norm <= 0) return 1.0f;
    const double factor = clip_norm / (sqrt(dot(gradient, gradient, n)) + 1e-6);
    return factor > 1 ? 1.0f : (float)factor;
}

/* One step of SGD with momentum and weight decay on the clipped gradient. */
static void step(float *restrict parameters, float *restrict velocity,
                 const float *restrict gradient, ptrdiff_t n, const LenetSchedule *plan) {
    const float clip = clip_factor(gradient, n, plan->clip_norm);
    const float momentum = plan->momentum, decay = plan->weight_decay, rate = plan->rate;
    for (ptrdiff_t i = 0; i < n; i++) {
        const float w = parameters[i];
        const float v = momentum * velocity[i] + (clip * gradient[i] + decay * w);
        velocity[i] = v;
        parameters[i] = w - rate * v;
    }
}

static void clear_masked(float *restrict gradient, const uint8_t *restrict mask, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) gradient[i] = mask[i] ? gradient[i] : 0.0f;
}

/* The same for the parameters that have a 1 in the mask; the gradient of the others is lost. Their
 * velocity stays zero, and a step by zero leaves all bits as they are. Written out in vectors, since
 * compilers make jumps of the choice; multiplications and additions are those of step(). */
static void masked_step(float *restrict parameters, float *restrict velocity,
                        float *restrict gradient, const uint8_t *restrict mask, ptrdiff_t n,
                        const LenetSchedule *plan) {
    clear_masked(gradient, mask, n);
    const float clip = clip_factor(gradient, n, plan->clip_norm);
    const float momentum = plan->momentum, decay = plan->weight_decay, rate = plan->rate;
    const vec clips = _mm256_set1_ps(clip), momenta = _mm256_set1_ps(momentum);
    const vec decays = _mm256_set1_ps(decay), rates = _mm256_set1_ps(rate);
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const ivec off = _mm256_cmpeq_epi32(load_bytes(mask + i), _mm256_setzero_si256());
        const vec w = _mm256_loadu_ps(parameters + i);
        const vec pushed = _mm256_add_ps(_mm256_mul_ps(clips, _mm256_loadu_ps(gradient + i)),
                                         _mm256_mul_ps(decays, w));
        const vec carried = _mm256_mul_ps(momenta, _mm256_loadu_ps(velocity + i));
        const vec v = _mm256_andnot_ps(_mm256_castsi256_ps(off), _mm256_add_ps(carried, pushed));
        _mm256_storeu_ps(velocity + i, v);
        _mm256_storeu_ps(parameters + i, _mm256_sub_ps(w, _mm256_mul_ps(rates, v)));
    }
    for (; i < n; i++) {
        const float w = parameters[i];
        if (mask[i]) velocity[i] = momentum * velocity[i] + (clip * gradient[i] + decay * w);
        parameters[i] = w - rate * velocity[i];
    }
}

/* gradient += pull * (parameters - anchor) */
static void add_pull(float *restrict gradient, const float *restrict parameters,
                     const float *restrict anchor, float pull, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) gradient[i] += pull * (parameters[i] - anchor[i]);
}

static void add(float *restrict gradient, const float *restrict correction, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) gradient[i] += correction[i];
}

/* anchor += follow (parameters - anchor), exact where follow is 0 or 1, as torch.lerp. */
static void follow(float *restrict anchor, const float *restrict parameters, float share,
                   ptrdiff_t n) {
    const float rest = 1.0f - share;
    if (share < 0.5f)
        for (ptrdiff_t i = 0; i < n; i++) anchor[i] += share * (parameters[i] - anchor[i]);
    else
        for (ptrdiff_t i = 0; i < n; i++)
            anchor[i] = parameters[i] - rest * (parameters[i] - anchor[i]);
}

/* point = from + scale * direction */
static void move(float *restrict point, const float *restrict from,
                 const float *restrict direction, float scale, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; i++) point[i] = from[i] + scale * direction[i];
}

static Workspace *workspace_for(const LenetInput *in, const LenetData *data,
                                const LenetMemory *memory, int64_t batch) {
    Workspace *ws = workspace_in(memory->workspace, shape_of(in), batch);
    set_standardisation(ws, data);
    return ws;
}

static bool cancelled(const LenetSchedule *plan) { return plan->cancel && *plan->cancel; }

/* ---- training -------------------------------------------------------------------------------- */

/* The batch of an epoch that begins with its sample `first`. */
static Batch batch_at(const LenetSchedule *plan, int64_t epoch, int64_t first) {
    const Batch all = {plan->order, plan->views, plan->epochs * plan->samples};
    return batch_from(all, epoch * plan->samples + first,
                      smaller(plan->batch, plan->samples - first));
}

/* The batch after it, and after the last one the first. */
static Batch batch_after(const LenetSchedule *plan, int64_t epoch, int64_t first) {
    const int64_t next = first + plan->batch;
    return batch_at(plan, epoch, next < plan->samples ? next : 0);
}

/* One call of lenet_train. Vectors are whole, but only the part of them is computed and used. */
typedef struct {
    Workspace *ws;
    const LenetData *data;
    const LenetSchedule *plan;
    const LenetPart *part;
    const LenetRule *rule;
    float *parameters, *scratch;
    ptrdiff_t begin, n; /* of the part */
} Training;

static float *vector_of(const Training *t, ptrdiff_t which) {
    return t->scratch + which * vector_floats(&t->ws->shape);
}

/* Gradient of the mean loss of a batch, in the part. */
static void gradient_at(const Training *t, Batch batch, const float *point, float *gradient) {
    batch_gradient(t->ws, t->data, batch, point, gradient, t->begin);
}

/* The same where the parameters moved by scale * direction. */
static void gradient_beside(const Training *t, Batch batch, const float *direction, float scale,
                            float *gradient) {
    float *point = vector_of(t, POINT);
    move(point + t->begin, t->parameters + t->begin, direction + t->begin, scale, t->n);
    gradient_at(t, batch, point, gradient);
    if (t->part->mask) clear_masked(gradient + t->begin, t->part->mask + t->begin, t->n);
}

/* gradient -= ahead H gradient, with H the Hessian of the loss of a batch: the difference of two
 * gradients, one `radius` to either side along `gradient`. */
static void subtract_curvature(const Training *t, Batch batch, float *gradient) {
    const float radius = t->rule->radius;
    const float norm = (float)sqrt(dot(gradient + t->begin, gradient + t->begin, t->n));
    if (!(norm > 0)) return;
    float *forward_gradient = vector_of(t, FORWARD_GRADIENT);
    float *backward_gradient = vector_of(t, BACKWARD_GRADIENT);
    gradient_beside(t, batch, gradient, radius / norm, forward_gradient);
    gradient_beside(t, batch, gradient, -radius / norm, backward_gradient);
    const float scale = t->rule->ahead * norm / (2 * radius);
    for (ptrdiff_t i = t->begin; i < t->begin + t->n; i++)
        gradient[i] -= scale * (forward_gradient[i] - backward_gradient[i]);
}

/* Gradient of the loss of `batch` after one clipped step on `other`; with a radius, with respect to
 * the parameters before that step. */
static void gradient_ahead(const Training *t, Batch batch, Batch other, float *gradient) {
    gradient_at(t, other, t->parameters, gradient);
    if (t->part->mask) clear_masked(gradient + t->begin, t->part->mask + t->begin, t->n);
    const float clip = clip_factor(gradient + t->begin, t->n, t->plan->clip_norm);
    memcpy(vector_of(t, POINT), t->parameters, (size_t)t->ws->shape.parameters * sizeof(float));
    /* `gradient` is read before it is written. */
    gradient_beside(t, batch, gradient, -t->rule->ahead * clip, gradient);
    if (t->rule->radius != 0) subtract_curvature(t, other, gradient);
}

/* One step with a batch. */
static void train_batch(const Training *t, Batch batch, Batch other) {
    const LenetRule *rule = t->rule;
    float *gradient = vector_of(t, GRADIENT), *velocity = vector_of(t, VELOCITY);
    if (rule->ahead != 0) gradient_ahead(t, batch, other, gradient);
    else gradient_at(t, batch, t->parameters, gradient);
    float *moving = t->parameters + t->begin, *moving_gradient = gradient + t->begin;
    if (rule->pull != 0)
        add_pull(moving_gradient, moving, rule->anchor + t->begin, rule->pull, t->n);
    if (rule->correction) add(moving_gradient, rule->correction + t->begin, t->n);
    if (t->part->mask)
        masked_step(moving, velocity, moving_gradient, t->part->mask + t->begin, t->n, t->plan);
    else step(moving, velocity, moving_gradient, t->n, t->plan);
}

/* ---- what the binding calls ------------------------------------------------------------------ */

/* Trains a part of `parameters` in place by a rule. */
EXPORT int lenet_train(const LenetInput *in, const LenetData *data, const LenetMemory *memory,
                       const LenetSchedule *plan, const LenetPart *part, const LenetRule *rule,
                       float *parameters) {
    Workspace *ws = workspace_for(in, data, memory, plan->batch);
    const Training t = {.ws = ws, .data = data, .plan = plan, .part = part, .rule = rule,
                        .parameters = parameters, .scratch = memory->scratch,
                        .begin = part->begin, .n = part->end - part->begin};
    memset(vector_of(&t, VELOCITY), 0, (size_t)t.n * sizeof(float));
    for (int64_t epoch = 0; epoch < plan->epochs; epoch++)
        for (int64_t first = 0; first < plan->samples; first += plan->batch) {
            if (cancelled(plan)) return CANCELLED;
            const Batch batch = batch_at(plan, epoch, first);
            const Batch other = batch_after(plan, epoch, first);
            for (int64_t repeat = 0; repeat < rule->repeats; repeat++)
                train_batch(&t, batch, other);
            if (rule->follow != 0)
                follow(rule->anchor, parameters, rule->follow, ws->shape.parameters);
        }
    return DONE;
}

/* APFL: w learns alone; v learns through the mixture alpha v + (1 - alpha) w; so does alpha. */
EXPORT int lenet_train_apfl(const LenetInput *in, const LenetData *data, const LenetMemory *memory,
                            const LenetSchedule *plan, float *w, float *v, double *alpha) {
    Workspace *ws = workspace_for(in, data, memory, plan->batch);
    const ptrdiff_t n = ws->shape.parameters, stride = vector_floats(&ws->shape);
    float *gradient = memory->scratch + GRADIENT * stride;
    float *velocity = memory->scratch + VELOCITY * stride;
    float *mixed = memory->scratch + MIXED * stride;
    float *mixed_gradient = memory->scratch + MIXED_GRADIENT * stride;
    float *mixed_velocity = memory->scratch + MIXED_VELOCITY * stride;
    memset(velocity, 0, (size_t)n * sizeof(float));
    memset(mixed_velocity, 0, (size_t)n * sizeof(float));
    for (int64_t epoch = 0; epoch < plan->epochs; epoch++)
        for (int64_t first = 0; first < plan->samples; first += plan->batch) {
            if (cancelled(plan)) return CANCELLED;
            const Batch batch = batch_at(plan, epoch, first);
            const float a = (float)*alpha, b = (float)(1.0 - *alpha);
            for (ptrdiff_t i = 0; i < n; i++) mixed[i] = a * v[i] + b * w[i];
            batch_gradient(ws, data, batch, w, gradient, 0);
            batch_gradient(ws, data, batch, mixed, mixed_gradient, 0);

            float *difference = mixed; /* the mixture has served */
            for (ptrdiff_t i = 0; i < n; i++) difference[i] = v[i] - w[i];
            const double slope = dot(mixed_gradient, difference, n);
            for (ptrdiff_t i = 0; i < n; i++) mixed_gradient[i] *= a;
            step(w, velocity, gradient, n, plan);
            step(v, mixed_velocity, mixed_gradient, n, plan);
            const double moved = *alpha - plan->rate * slope;
            /* A model that has diverged says nothing about alpha. */
            if (isfinite(moved)) *alpha = moved < 0 ? 0 : moved > 1 ? 1 : moved;
        }
    return DONE;
}

/* Number of correct predictions and sum of losses over plan->order (one epoch). No scratch. */
EXPORT int lenet_evaluate(const LenetInput *in, const LenetData *data, const LenetMemory *memory,
                          const LenetSchedule *plan, const float *parameters, int64_t *correct,
                          double *loss) {
    Workspace *ws = workspace_for(in, data, memory, plan->batch);
    *correct = 0, *loss = 0;
    prepare_kernels(ws, parameters);
    for (int64_t first = 0; first < plan->samples; first += ws->chunk) {
        if (cancelled(plan)) return CANCELLED;
        const Batch chunk = batch_from((Batch){plan->order, plan->views, plan->samples}, first,
                                       smaller(ws->chunk, plan->samples - first));
        forward(ws, data, chunk, parameters, false);
        for (ptrdiff_t i = 0; i < chunk.size; i++) {
            const int64_t label = data->labels[chunk.indices[i]];
            ptrdiff_t prediction;
            float top, sum;
            *loss += cross_entropy(ws, i, label, &prediction, &top, &sum);
            *correct += prediction == label;
        }
    }
    return DONE;
}

/* Gradient and value of the mean loss over plan->order as one batch. No scratch. */
EXPORT int lenet_gradient(const LenetInput *in, const LenetData *data, const LenetMemory *memory,
                          const LenetSchedule *plan, const float *parameters, float *gradient,
                          double *loss) {
    Workspace *ws = workspace_for(in, data, memory, plan->batch);
    const Batch all = {plan->order, plan->views, plan->samples};
    *loss = batch_gradient(ws, data, all, parameters, gradient, 0) / (double)plan->samples;
    return DONE;
}
