#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/layers/module.hpp>

namespace jnorm {

// Normalizations of [..., dim] -> the same, each position for itself over its features, except BatchNorm's. gamma
// starts at 1 and beta at 0. The constructors throw Error(argument) unless sizes are positive and eps is finite and not
// negative; calls do on an input of another width, with gamma or without.

struct NormOptions {
  double eps = kNormEps;
  bool affine = true;  // whether there are gamma and beta; without them a norm only normalizes
};

// Over the last axis, or over several trailing axes of this shape together, as PyTorch's normalized_shape.
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(Index dim, const NormOptions& options = {}) : LayerNorm(Shape{dim}, options) {}
  explicit LayerNorm(const Shape& normalized, const NormOptions& options = {});

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  Shape normalized_;
  double eps_;
  Parameter* gamma_ = nullptr;
  Parameter* beta_ = nullptr;
};

// Its root mean square is taken over all features, or over the first ceil(fraction dim) of them alone: partial RMSNorm
// (Zhang and Sennrich 2019, section 4). Throws Error(argument) unless 0 < fraction <= 1.
class RmsNorm : public Layer {
 public:
  explicit RmsNorm(Index dim, const NormOptions& options = {}, double fraction = 1.0);

  Index measured_features() const { return measured_; }

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  Index dim_;
  Index measured_;
  double eps_;
  Parameter* gamma_ = nullptr;
};

// In training, over all positions that the mask of the pass counts, feature by feature; it keeps running means and
// variances with this momentum, running <- (1 - momentum) running + momentum batch, with the unbiased variance. In
// evaluation it normalizes with them. One value a feature has no variance: an Error(argument) in training. A batch
// without values leaves the running statistics as they are, and so does a tape that only measures. [BN.1] [BN.8]
class BatchNorm : public Layer {
 public:
  static constexpr double kMomentum = 0.1;
  explicit BatchNorm(Index dim, const NormOptions& options = {}, double momentum = kMomentum);

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  void update(const NormalizedBatch& batch);

  double eps_;
  double momentum_;
  Parameter* gamma_ = nullptr;
  Parameter* beta_ = nullptr;
  Buffer& running_mean_;
  Buffer& running_variance_;
};

// Over groups of neighbouring features of one position. Throws Error(argument) unless the groups divide dim.
class GroupNorm : public Layer {
 public:
  GroupNorm(Index dim, Index groups, const NormOptions& options = {});

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  Index dim_;
  Index groups_;
  double eps_;
  Parameter* gamma_ = nullptr;
  Parameter* beta_ = nullptr;
};

// g x / ||x|| with one number g, which starts at sqrt(dim), so that a feature's mean square is 1 (Nguyen and Salazar
// 2019).
class ScaleNorm : public Layer {
 public:
  explicit ScaleNorm(Index dim, const NormOptions& options = {});

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  Index dim_;
  double start_;  // sqrt(dim), also where g isn't learned
  double eps_;
  Parameter* g_ = nullptr;
};

// gamma tanh(alpha x) + beta in a norm's place: alpha starts at 1/2 (Zhu et al. 2025). It has no eps.
class DynamicTanh : public Layer {
 public:
  static constexpr double kStartingAlpha = 0.5;
  explicit DynamicTanh(Index dim, bool affine = true);

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  Index dim_;
  Parameter& alpha_;
  Parameter* gamma_ = nullptr;
  Parameter* beta_ = nullptr;
};

// What stands where a norm is left out.
class Identity : public Layer {
 protected:
  Var forward(const Var& x, const Pass& /*pass*/, SourceLine /*line*/) override { return x; }
};

enum class NormKind { layer, rms, batch, group, scale, dyt, none };

std::string to_string(NormKind kind);
NormKind norm_kind_from_string(std::string_view name);  // throws Error(argument) that lists the names
const std::vector<NormKind>& norm_kinds();

// A norm as data.
struct NormConfig {
  NormKind kind = NormKind::layer;
  Index dim = 64;
  double eps = kNormEps;
  bool affine = true;
  Index groups = 4;                        // of group
  double fraction = 1.0;                   // of rms: 1 measures all features
  double momentum = BatchNorm::kMomentum;  // of batch
};

std::unique_ptr<Layer> make_norm(const NormConfig& config);
inline std::unique_ptr<Layer> make_norm(NormKind kind, Index dim, double eps = kNormEps) {
  return make_norm({.kind = kind, .dim = dim, .eps = eps});
}

}  // namespace jnorm
