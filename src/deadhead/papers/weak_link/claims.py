"""The claims of Budhraja et al. 2020: W1 to W18."""

from . import claims_bert, claims_translation

CLAIMS = (*claims_translation.CLAIMS, *claims_bert.CLAIMS)
