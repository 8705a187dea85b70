#pragma once

// Private to the kernels of activations, on all devices.

namespace jnorm {

// Phi(-a) = exp(-a^2/2) numerator(a) / denominator(a), the rational function that fits a >= 0 with the least largest
// error: relative to 1 in float64, 4.8e-17; relative to 1 + a^2/2 in float32, 5.5e-8. Coefficients by rising powers;
// all are positive, so nothing cancels.
template <class T>
struct NormalTail;
template <>
struct NormalTail<float> {
  float numerator[4]{13.9002655f, 9.49618195f, 3.0013254f, 0.398807168f};
  float denominator[5]{27.8005326f, 41.1738801f, 24.9553946f, 7.51210321f, 1.0f};
};
template <>
struct NormalTail<double> {
  double numerator[10]{145125.63118818127, 224722.35820473353, 172153.6530944958,  83787.096658317699,
                       28271.196035499318, 6830.1281670250792, 1181.3432578401016, 141.53707841764659,
                       10.739809247745713, 0.39894228040012243};
  double denominator[11]{290251.26237636255,
                         681031.71741310555,
                         742566.36774187613,
                         496736.24180289019,
                         226444.20944975105,
                         73772.722794054418,
                         17473.373355033598,
                         2988.1091182330038,
                         355.78084273223475,
                         26.920709523871871,
                         1.0};
};

}  // namespace jnorm
