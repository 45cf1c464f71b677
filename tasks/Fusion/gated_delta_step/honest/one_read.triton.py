# honest: a slice of values a program, whose part of the state stays in registers
import triton
import triton.language as tl

VALUES = 32


@triton.jit
def step_kernel(
    state, q, k, v, log_decay, beta, out, new_state, key_dim, value_dim,
    KEYS: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, KEYS)
    j = tl.program_id(1) * VALUES + tl.arange(0, VALUES)
    at = head * key_dim * value_dim + i[:, None] * value_dim + j[None, :]
    inside = (i < key_dim)[:, None] & (j < value_dim)[None, :]
    decayed = tl.load(state + at, inside, other=0.0) * tl.exp(tl.load(log_decay + head))
    query = tl.load(q + head * key_dim + i, i < key_dim, other=0.0).to(tl.float32)
    key = tl.load(k + head * key_dim + i, i < key_dim, other=0.0).to(tl.float32)
    query = query / tl.sqrt(tl.sum(query * query) + 1e-6)
    key = key / tl.sqrt(tl.sum(key * key) + 1e-6)
    value = tl.load(v + head * value_dim + j, j < value_dim, other=0.0).to(tl.float32)
    seen = tl.sum(decayed * key[:, None], axis=0)
    change = tl.load(beta + head) * (value - seen)
    fresh = decayed + key[:, None] * change[None, :]
    tl.store(new_state + at, fresh, inside)
    result = tl.sum(fresh * query[:, None], axis=0) / tl.sqrt(key_dim * 1.0)
    tl.store(out + head * value_dim + j, result, j < value_dim)


def gated_delta_step(state, q, k, v, log_decay, beta, out, new_state):
    batch, heads, key_dim, value_dim = state.shape
    step_kernel[(batch * heads, triton.cdiv(value_dim, VALUES))](
        state, q, k, v, log_decay, beta, out, new_state, key_dim, value_dim,
        KEYS=triton.next_power_of_2(key_dim), VALUES=VALUES, num_warps=4,
    )  # fmt: skip
