"""The claims of Budhraja et al. 2021: M1 to M21."""

from . import claims_glue, claims_measures, claims_xnli

CLAIMS = (*claims_glue.CLAIMS, *claims_xnli.CLAIMS, *claims_measures.CLAIMS)
