// Elementary functions and activations on vectors. Every lane is computed alike, so that an element
// has the same bits wherever it stands. Coefficients are minimax fits of our own.
constexpr int kParts = kLanes16 / kLanes;  // vectors that make the 16 lanes of a reduction

// 2^f for |f| <= 0.51 given as r = f ln 2, times 2^n.
inline V exp_reduced(V r, V n) {
  V q = set1(1.381454058e-03f);
  q = fma(q, r, set1(8.368745446e-03f));
  q = fma(q, r, set1(4.166838899e-02f));
  q = fma(q, r, set1(1.666652113e-01f));
  q = fma(q, r, set1(4.999999404e-01f));
  q = fma(q, r, set1(1.0f));
  return scale(fma(q, r, set1(1.0f)), n);
}

// Within 1 ulp or so; 0 below -104, infinity above 89, NaN of NaN.
inline V exp_of(V x) {
  x = max(set1(-105.0f), min(set1(90.0f), x));
  const V n = round_nearest(x * set1(1.442695041f));
  V r = fma(n, set1(-0.693147182f), x);
  r = fma(n, set1(1.90465421e-09f), r);  // what ln 2 has beyond a float
  return exp_reduced(r, n);
}

// 2^x for -100 <= x <= 0.
inline V exp2_of(V x) {
  const V n = round_nearest(x);
  return exp_reduced((x - n) * set1(0.693147181f), n);
}

// 2^x for x <= 0 or so: 0 below -126, NaN of NaN.
inline V exp2_flushed(V x) {
  const V n = round_nearest(x), f = x - n;
  V p = set1(1.535325864e-04f);
  p = fma(p, f, set1(1.339900307e-03f));
  p = fma(p, f, set1(9.618438780e-03f));
  p = fma(p, f, set1(5.550331995e-02f));
  p = fma(p, f, set1(2.402264774e-01f));
  p = fma(p, f, set1(6.931471825e-01f));
  return scale_flushed(fma(p, f, set1(1.0f)), n, x);
}

// The normal distribution's. erfc(a/sqrt 2) = 2^(-a Q(a)); its half is Phi(-a).
inline V phi(V x) {
  const V a = min(set1(10.0f), abs(x));
  V q = set1(3.458029951e-08f);
  q = fma(q, a, set1(-1.029468649e-06f));
  q = fma(q, a, set1(1.272563441e-05f));
  q = fma(q, a, set1(-8.529425395e-05f));
  q = fma(q, a, set1(3.037863644e-04f));
  q = fma(q, a, set1(-3.649551581e-05f));
  q = fma(q, a, set1(-6.917519961e-03f));
  q = fma(q, a, set1(5.243020505e-02f));
  q = fma(q, a, set1(4.592221379e-01f));
  q = fma(q, a, set1(1.151104212e+00f));
  const V half = set1(0.5f) * exp2_of(zero() - a * q);
  return select_less(x, zero(), half, set1(1.0f) - half);
}

inline V gelu(V x) { return x * phi(x); }

inline V sigmoid(V x) { return set1(1.0f) / (set1(1.0f) + exp_of(zero() - x)); }

inline V tanh_of(V x) {
  const V a = abs(x), u = x * x;
  V p = set1(-5.528633948e-03f);
  p = fma(p, u, set1(2.048331685e-02f));
  p = fma(p, u, set1(-5.369296670e-02f));
  p = fma(p, u, set1(1.333089918e-01f));
  p = fma(p, u, set1(-3.333326280e-01f));
  const V small = fma(p * u, x, x);
  const V large = set1(1.0f) - set1(2.0f) / (exp_of(a + a) + set1(1.0f));
  const V negative = zero() - large;
  return select_less(a, set1(0.65f), small, select_less(x, zero(), negative, large));
}

// x/2 (1 + tanh u) = x sigmoid(2u)
inline V gelu_tanh(V x) {
  const V u = x * fma(set1(0.044715f), x * x, set1(1.0f));
  return x * sigmoid(set1(1.595769122f) * u);
}

template <V (*F)(V)>
void map(float* x, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, F(load(x + i)));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    store_n(x + i, F(load_n(x + i, rest)), rest);
  }
}

inline V relu(V x) { return max(zero(), x); }
inline V relu2(V x) { return relu(x) * relu(x); }
inline V relu6(V x) { return min(set1(6.0f), relu(x)); }
inline V leaky_relu(V x) { return select_less(x, zero(), set1(kLeak) * x, x); }
inline V hard_swish(V x) { return x * relu6(x + set1(3.0f)) / set1(6.0f); }
inline V clipped_gelu(V x) { return max(set1(-kGeluClip), min(set1(kGeluClip), gelu(x))); }
inline V laplace(V x) { return phi((x - set1(kLaplaceMean)) / set1(kLaplaceDeviation)); }

// tanh(ln(1 + e)) = n / (n + 2) of n = e (e + 2), which is 1 long before e is infinite.
inline V mish(V x) {
  const V e = exp_of(min(set1(30.0f), x)), n = e * (e + set1(2.0f));
  return x * (n / (n + set1(2.0f)));
}

// ln(1 + e) of 0 <= e <= 1: 2 artanh(e / (2 + e)), whose series ends soon.
inline V log1p_of(V e) {
  const V s = e / (e + set1(2.0f)), u = s * s;
  V p = set1(1.0f / 15.0f);
  p = fma(p, u, set1(1.0f / 13.0f));
  p = fma(p, u, set1(1.0f / 11.0f));
  p = fma(p, u, set1(1.0f / 9.0f));
  p = fma(p, u, set1(1.0f / 7.0f));
  p = fma(p, u, set1(0.2f));
  p = fma(p, u, set1(1.0f / 3.0f));
  p = fma(p, u, set1(1.0f));
  return (s + s) * p;
}
inline V sqrt_softplus(V x) { return sqrt_of(log1p_of(exp_of(zero() - abs(x))) + max(zero(), x)); }

inline V silu(V x) { return x * sigmoid(x); }
inline V quick_gelu(V x) { return x * sigmoid(set1(1.702f) * x); }

// x = cap * tanh(x / cap)
[[maybe_unused, gnu::noinline]] void soft_cap(float cap, float* x, int64_t n) {
  const V c = set1(cap);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, c * tanh_of(load(x + i) / c));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    store_n(x + i, c * tanh_of(load_n(x + i, rest) / c), rest);
  }
}

[[gnu::noinline]] void activate(Activation activation, float* x, int64_t n) {
  switch (activation) {
    case Activation::kNone: return;
    case Activation::kRelu: return map<relu>(x, n);
    case Activation::kGelu: return map<gelu>(x, n);
    case Activation::kGeluTanh: return map<gelu_tanh>(x, n);
    case Activation::kQuickGelu: return map<quick_gelu>(x, n);
    case Activation::kSilu: return map<silu>(x, n);
    case Activation::kTanh: return map<tanh_of>(x, n);
    case Activation::kSigmoid: return map<sigmoid>(x, n);
    case Activation::kClippedGelu: return map<clipped_gelu>(x, n);
    case Activation::kHardSwish: return map<hard_swish>(x, n);
    case Activation::kLaplace: return map<laplace>(x, n);
    case Activation::kLeakyRelu: return map<leaky_relu>(x, n);
    case Activation::kMish: return map<mish>(x, n);
    case Activation::kRelu2: return map<relu2>(x, n);
    case Activation::kRelu6: return map<relu6>(x, n);
    case Activation::kSqrtSoftplus: return map<sqrt_softplus>(x, n);
  }
}
