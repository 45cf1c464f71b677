// honest: the valid part of a page copied at once and the rest cleared, pages shared among threads
// arena: flags -O3 -march=native
#include "page_gather.h"

#include <algorithm>
#include <cstring>

extern "C" int page_gather(const page_gather_args* args) {
    const int64_t pages = args->pages, page_size = args->page_size, width = args->width;
    const int64_t all_pages = args->sequences * pages, page_elements = page_size * width;
#pragma omp parallel for num_threads(arena_threads()) if (all_pages * page_elements > 16384)
    for (int64_t place = 0; place < all_pages; ++place) {
        const int64_t first = place % pages * page_size, length = args->lengths[place / pages];
        const int64_t valid = std::min(std::max(length - first, int64_t(0)), page_size) * width;
        const float* page = args->cache + args->page_table[place] * page_elements;
        float* out = args->out + place * page_elements;
        std::memcpy(out, page, valid * sizeof(float));
        std::memset(out + valid, 0, (page_elements - valid) * sizeof(float));
    }
    return 0;
}
