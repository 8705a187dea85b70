// The Jacobian of one Pre-Norm and one Post-Norm block with the same weights at the same input: how far each is from
// the identity, and that the norm's closed-form Jacobian and the branch's put together are the tape's.

#include <jnorm/jnorm.hpp>

using namespace jnorm;

int main() {
  const Rng rng(1);
  Rng inputs = rng.split("x");
  const Tensor x0 = randn({1, 8, 32}, inputs, DType::float64);  // [batch, tokens, width]

  for (const Placement* placement : {&Placement::pre, &Placement::post}) {
    Transformer model(
        {.layers = 1, .dim = 32, .heads = 2, .context = 8, .placement = *placement, .dtype = DType::float64}, rng);
    Tape tape;
    const Var x = tape.variable(x0, "x");
    model.stack(x);

    // One recorded forward serves all of these.
    const LinearMap block = linearize(tape.output("blocks.0"), tape.input("blocks.0"));
    const LinearMap ffn = linearize(tape.output("blocks.0.ffn"), tape.input("blocks.0.ffn"));
    const LinearMap branch = linearize(tape.output("blocks.0.ffn.branch"), tape.input("blocks.0.ffn.branch"));
    const NormJacobian norm = layer_norm_jacobian(tape.input("blocks.0.ffn.norm").value(), {}, kNormEps);

    const Tensor eye = identity(ffn.rows(), DType::float64);
    const Tensor from_parts =
        *placement == Placement::pre ? add(eye, matmul(branch.dense(), norm)) : matmul(norm, add(eye, branch.dense()));
    print(placement->name, "  y =", placement->formula, "  J =", placement->jacobian);
    print("  distance of the block from the identity  ", block.distance_to_identity());
    print("  its largest singular values              ", block.singular_values(4));
    print("  of the norm alone                        ", norm.spectral_norm());
    print("  ffn sublayer: J from the parts, off by   ", relative_distance(from_parts, ffn.dense()));
  }
}
