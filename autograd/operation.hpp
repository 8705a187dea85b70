#pragma once

#include <optional>
#include <span>
#include <string_view>

#include <jnorm/autograd/var.hpp>
#include <jnorm/core/kernels.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

class Pullback;
class Pushforward;
class RecordedPullback;

// What a reader is told of an operation: graphs, lessons, checks and documentation read it here.
struct Description {
  const char* name;
  const char* inputs;  // their names, separated by spaces: "x gamma beta"
  const char* formula;
  const char* derivation = "";     // the Markdown page beside the code
  const char* source = "";         // the paper or book
  std::uint32_t saved_inputs = 0;  // bit i: the derivative reads input i's value
  bool saves_output = false;       // the derivative reads the output's value
  const char* saved = "";          // names of what the forward saves beside them: "mean rstd"

  // Which rows row r of the output depends on. Rows are the leading axes flattened, the last axis lies within a row; an
  // int32 input has one element a row. A dense Jacobian sweeps only the rows that are live: vjp then gets all that is
  // marked here cut to these rows, [r, H], and whole what isn't marked, as weights. Without row_inputs nothing is
  // known, and all rows are swept.
  std::uint32_t row_inputs = 0;      // bit i: of input i, row r alone
  std::uint32_t earlier_inputs = 0;  // bit i: of input i [B, T, H], row r and the earlier ones of the same sequence
  std::uint32_t row_saved = 0;  // bit i: saved tensor i belongs to rows: [R] or [R, ...], beside sequences [B, ..., T]
};

// A recorded operation's derivatives. Its parameters (an eps, axes) are members; its tensors are on the tape: the
// inputs' and the output's values, and what the forward saved beside them.
//
// Operations are trivially destructible values that the tape keeps in its arena.
class Operation {
 public:
  virtual const Description& description() const = 0;

  // Adds J^T dy to the wanted inputs. The cotangent dy may carry a leading axis of K of them (back.copies()).
  virtual void vjp(Pullback& back) const = 0;

  // Gives J x_dot, summed over the inputs that have a tangent; tangents may carry a leading axis of K as well.
  virtual void jvp(Pushforward& push) const = 0;

  // The vjp as recorded operations, for derivatives of derivatives. By default the composed definition is recorded from
  // the inputs and swept.
  virtual void recorded_vjp(RecordedPullback& back) const;

  // The same function composed from primitive operations: the second witness of the derivative, and the way that higher
  // derivatives take. Throws Error(state) if there is none.
  virtual Var composed(std::span<const Var> inputs) const;
  virtual bool has_composition() const { return false; }

  // A number that it was recorded with, for those who look at a tape later: "eps" of a norm, "shift" of affine, "axes"
  // of sum and variance (a bit each), "causal" of attention (0 or 1). Nothing where it has none of this name.
  virtual std::optional<double> setting(std::string_view /*name*/) const { return std::nullopt; }

 protected:
  ~Operation() = default;
};

// What setting() returns where there is one: the number if it is asked for.
inline std::optional<double> number_if(bool asked, double number) {
  return asked ? std::optional(number) : std::nullopt;
}

// A primitive operation: its pull(back) is a template that serves tensors and recorded values alike.
template <class Self>
class Primitive : public Operation {
 public:
  const Description& description() const final { return Self::kDescription; }
  void vjp(Pullback& back) const final { self().pull(back); }
  void recorded_vjp(RecordedPullback& back) const final { self().pull(back); }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

// A fused operation: hand-written derivatives in kernels, and a composed definition for higher orders.
template <class Self>
class Fused : public Operation {
 public:
  const Description& description() const final { return Self::kDescription; }
  bool has_composition() const final { return true; }
};

}  // namespace jnorm
