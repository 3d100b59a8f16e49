"""TRL's trainers as the tests of parity run them, and what they compute of each step, at full precision."""
import torch

from model_parity import ADAMW, CLIP, WEIGHT_DECAY


def settings_of(work, steps, rows):
    """What every trainer is told: `rows` a step, on the processor, by the optimizer that ours has; nothing is saved."""
    return dict(output_dir=str(work / "trl"), use_cpu=True, bf16=False, report_to="none", max_steps=steps,
                per_device_train_batch_size=rows, save_strategy="no", disable_tqdm=True, gradient_checkpointing=False,
                optim="adamw_torch", lr_scheduler_type="constant", learning_rate=ADAMW["lr"], adam_beta1=ADAMW["betas"][0],
                adam_beta2=ADAMW["betas"][1], adam_epsilon=ADAMW["eps"], weight_decay=WEIGHT_DECAY, max_grad_norm=CLIP)


def recorder(trainer):
    """`trainer` over the rows in their order; set `losses` to [] before it trains."""
    class Recorder(trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *arguments, **settings):
            loss = super().compute_loss(*arguments, **settings)
            self.losses.append(loss.item())
            return loss
    return Recorder
