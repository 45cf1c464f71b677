// Random sparse matrices, drawn from the seed that the environment names.
#pragma once

#include <cstdlib>
#include <random>
#include <vector>

#include "sparse_product.h"

inline unsigned seed() {
    const char* text = std::getenv("ARENA_SEED");
    return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 1u;
}

struct Matrix {
    std::vector<int> starts, columns;
    std::vector<float> values;

    // `degree` stored values in a row on average; a tenth of the rows has none.
    Matrix(int rows, int width, int degree, std::mt19937& random) {
        std::uniform_int_distribution<int> column(0, width - 1), count(1, 2 * degree), tenth(0, 9);
        std::normal_distribution<float> value;
        starts.push_back(0);
        for (int row = 0; row < rows; ++row) {
            for (int left = tenth(random) ? count(random) : 0; left > 0; --left) {
                columns.push_back(column(random));
                values.push_back(value(random));
            }
            starts.push_back(static_cast<int>(columns.size()));
        }
    }

    Csr csr() const {
        return {static_cast<int>(starts.size()) - 1, starts.data(), columns.data(), values.data()};
    }
};

inline std::vector<float> dense(std::size_t size, std::mt19937& random) {
    std::normal_distribution<float> value;
    std::vector<float> x(size);
    for (float& each : x) each = value(random);
    return x;
}
