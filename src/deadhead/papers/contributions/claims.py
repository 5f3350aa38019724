"""The claims of Ma et al. 2021: C-count to C-low-ja."""

from . import claims_gains, claims_heads, claims_sources

CLAIMS = (*claims_gains.CLAIMS, *claims_sources.CLAIMS, *claims_heads.CLAIMS)
