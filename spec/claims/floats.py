"""§2.1.2: the types of floats, and what they can hold."""

from spec.claim import HOLDS_IF, Chapter

chapter = Chapter("floats", section="2.1.2", title="Types of floats")

FLOAT32_LAYOUT = chapter.claim(
    "float32-layout",
    says="A float32 value takes 32 bits, which are 4 bytes: 1 for the sign, 8 for the exponent, 23 for the fraction.",
    law="decode, encode and fields agree bit for bit with what the platform stores, for patterns from the whole range "
    "and for numbers on and beside the midpoints (under their own claims, for every pattern of the narrower formats); "
    "19303.0890 is stored as 0x4696CE2E, which is 19303.08984375",
    source="IEEE 754-2019, binary32",
)
DECIMAL_ROUNDING = chapter.claim(
    "decimal-rounding",
    says="The sum of 0.1 and 0.2 is not 0.3.",
    law="0.1 + 0.2 differs from 0.3 in float64 and is the value nearest to 0.3 in float32; in every format a decimal "
    "fraction is stored as the nearest binary value, at most half an ulp away",
    standing=HOLDS_IF,
    condition="the numbers are float64: in float32 the rounded sum is the value that 0.3 is stored as",
    source="Goldberg 1991, What Every Computer Scientist Should Know About Floating-Point Arithmetic",
)
FLOAT16_RANGE = chapter.claim(
    "float16-range",
    says="float16 has 5 exponent bits, so that small numbers underflow to 0 and large ones overflow to infinity early.",
    law="1e-8 becomes 0, 65504 is the largest finite value and 65520 becomes infinity, 2⁻²⁴ is the smallest value "
    "above 0; all 65,536 patterns have the platform's values and fields",
    source="IEEE 754-2019, binary16",
)
BFLOAT16_RANGE = chapter.claim(
    "bfloat16-range",
    says="bfloat16 has float32's range at a lower resolution.",
    law="8 exponent bits and the smallest normal value as in float32, eps 2⁻⁷, 1e-8 survives; all 65,536 patterns "
    "have the platform's values and fields",
    standing=HOLDS_IF,
    condition="the range is that of the exponents: the largest finite value is 3.390e38 where float32's is 3.403e38, "
    "and the subnormals end at 2⁻¹³³ where float32's go on to 2⁻¹⁴⁹",
)
FP8 = chapter.claim(
    "fp8",
    says="fp8 was introduced by Nvidia in 2022, in two formats.",
    law="E4M3 reaches 448 and has no infinity, E5M2 reaches 57344 and has; all 256 patterns have the platform's values "
    "and fields; what lies beyond E4M3's maximum becomes the maximum or NaN, never infinity",
    source="Micikevicius et al. 2022 (Nvidia, Arm, Intel), FP8 Formats for Deep Learning, arXiv:2209.05433",
)
MIXED_STAGES = chapter.claim(
    "mixed-stages",
    says="The stages of a training step, such as the forward and the backward pass, can differ in precision.",
    law="under autocast a product and its gradient are bfloat16, while the parameter, its accumulated gradient and the "
    "step are float32 and keep what bfloat16 would round away",
    source="Micikevicius et al. 2018, Mixed Precision Training, arXiv:1710.03740",
)
