# honest: as many programs as fit on the device, by its properties and the kernel's registers
import triton
import triton.language as tl
from triton.runtime import driver


@triton.jit
def centre(x, out, rows, cols, scale, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    places = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        start = row.to(tl.int64) * cols
        values = tl.load(x + start + places, places < cols, 0.0)
        mean = tl.sum(values, 0) / cols
        tl.store(out + start + places, (values - mean) * scale, places < cols)


def centred(x, out, scale):
    rows, cols = x.shape
    block, warps = triton.next_power_of_2(cols), 8
    properties = driver.active.utils.get_device_properties(x.device.index or 0)
    arguments = {"BLOCK": block, "STAGES": 2, "num_warps": warps}
    kernel = centre.warmup(x, out, rows, cols, scale, **arguments, grid=(1,))
    kernel._init_handles()
    threads = properties["warpSize"] * warps
    occupancy = properties["max_num_regs"] // (kernel.n_regs * threads)
    if kernel.metadata.shared:
        occupancy = min(occupancy, properties["max_shared_mem"] // kernel.metadata.shared)
    programs = min(properties["multiprocessor_count"] * max(occupancy, 1), rows)
    centre[(programs, 1, 1)](x, out, rows, cols, scale, **arguments)
