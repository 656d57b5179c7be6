"""What transformers 5.24 computes otherwise than its models were trained, or otherwise after other inputs."""
import torch
from transformers.models.bigbird_pegasus.modeling_bigbird_pegasus import BigBirdPegasusEncoder
from transformers.models.nllb_moe.modeling_nllb_moe import NllbMoeExperts


def named_experts(self, hidden_states, router_mask, router_probs):
    """Those that the router names: 5.24 takes its mask for indices."""
    out = torch.zeros_like(hidden_states)
    for i in range(self.num_experts):
        rows = router_probs[:, i].nonzero().flatten()
        made = self[f"expert_{i}"](hidden_states[rows]) * router_probs[rows, i, None]
        out.index_add_(0, rows, made * (1 - self.moe_token_dropout))
    return out


def fresh(forward):
    """Blocks whatever was short before: the encoder forgets them with the first short input."""
    def of_one(self, *args, **kwargs):
        self.set_attention_type(self.config.attention_type)
        return forward(self, *args, **kwargs)
    return of_one


def repair():
    NllbMoeExperts.forward = named_experts
    BigBirdPegasusEncoder.forward = fresh(BigBirdPegasusEncoder.forward)
